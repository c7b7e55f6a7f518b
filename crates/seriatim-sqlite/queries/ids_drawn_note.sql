-- Notes the highest id that a capture had drawn, before it is taken out.
insert into sqlite_sequence (name, seq) values ('seriatim_drawn', ?1)
