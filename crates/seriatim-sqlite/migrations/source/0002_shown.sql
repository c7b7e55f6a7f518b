-- How far a consumer was shown changes: it cannot have handled more, unless this file is older than its checkpoints.
alter table seriatim_consumer add column shown integer;  -- null: not noted yet
