-- Forgets all but the latest actions.
delete from seriatim_action where id <= (select max(id) from seriatim_action) - ?1
