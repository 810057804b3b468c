"""What is measured: the speed of the game and of the network, and what programs are made of."""
