"""The graph as Jac sees it: types, a bounded projection, walkers, and exports."""
