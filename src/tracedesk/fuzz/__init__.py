"""A coverage-guided fuzzer of EVM contracts that an agent can watch and steer."""
