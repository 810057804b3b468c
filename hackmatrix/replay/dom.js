// Elements of a page: HTML, and SVG with its attributes.
function element(parent, kind, className, words) {
  const node = document.createElement(kind);
  if (className) node.className = className;
  if (words !== undefined) node.textContent = words;
  parent.append(node);
  return node;
}
function svg(parent, kind, attributes, words) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (words !== undefined) node.textContent = words;
  parent.append(node);
  return node;
}
