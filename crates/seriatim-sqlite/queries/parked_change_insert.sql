-- Keeps a change of a parked object, unless it is kept already.
insert or ignore into seriatim_parked_change (feed, object, change_id, change) values (?1, ?2, ?3, ?4)
