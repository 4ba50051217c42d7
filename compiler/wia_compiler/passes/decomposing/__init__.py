"""How each op that the mid level lacks is written in those that it has."""
