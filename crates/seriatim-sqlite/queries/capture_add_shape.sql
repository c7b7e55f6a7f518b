-- Changes after an id carry more columns from now on.
update seriatim_capture set shapes = json_insert(shapes, '$[#]', json_array(?2, ?3)) where id = ?1
