"""Adapters: each records one engine's backtest through a `Recorder`, and changes nothing in its result.

    with Recorder(name="sma cross") as recorder:
        backtesting_py.record(backtest, recorder, symbol="GOOG")
        backtest.run()

No adapter imports its engine before it is used, and none is a dependency of this package.
"""
