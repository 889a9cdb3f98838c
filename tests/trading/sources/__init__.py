"""Tests of the providers of market facts."""
