-- Draws the next epoch.
update seriatim_queue set last_epoch = last_epoch + 1 where name = ?1 returning last_epoch
