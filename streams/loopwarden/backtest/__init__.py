"""The same log under several configurations: what each would have halted.

``reading`` brings a log into units that are folded apart, ``judging`` folds one unit under each configuration,
``report`` adds up, ``pages`` draws the HTML.
"""
