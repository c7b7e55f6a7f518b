-- Hears when anybody has ticked, and that the sequencer is alive.
listen seriatim_tick;
listen seriatim_beat
