-- Notes what somebody did.
insert into seriatim_action (at, text) values (cast(unixepoch('subsec') * 1000 as integer), ?1)
