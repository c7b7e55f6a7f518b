-- Notes what somebody did, and forgets all but the latest actions.
with noted as (
    insert into seriatim.action (text) values ($1) returning id
)
delete from seriatim.action where id <= (select id from noted) - $2
