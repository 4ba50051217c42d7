"""Timers, ceilings of machines, rooflines and advice: numbers only, nothing is drawn here."""
