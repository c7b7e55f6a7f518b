-- Writes a capture down under a number that the rest of the script knows.
insert into seriatim.capture (id, kind, relation, key, known, writer) overriding system value
values ({id}, 'journal', {relation}, '{{key}}', {known}, '{writer}');
select setval(pg_get_serial_sequence('seriatim.capture', 'id'), {id});
