-- Hears when anybody has ticked.
listen seriatim_tick
