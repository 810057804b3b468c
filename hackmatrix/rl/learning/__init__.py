"""Shared by algorithms that learn a policy and a value function by gradient descent."""
