    -- A TRUNCATE of one partition is not one of the table: its rows are deleted one by one. One of the whole table is noted before.
    if current_setting('transaction_isolation') <> 'read committed' then
        -- Rows that are newer than the snapshot cannot be seen here.
        {doubted}        return null;
    end if;
    select j.op into last_op from seriatim.journal_N j where j.xid = pg_current_xact_id() order by j.id desc limit 1;
    if last_op = 't' then
        return null;
    end if;
    execute format('insert into seriatim.journal_N_R (id, xid, op, at, hash, before)
        select {next}, pg_current_xact_id(), ''d'', clock_timestamp(), {hash}, r.image
        from (select seriatim.with_null_documents(row_to_json(x.*), x.*, $1) as image from only %s x offset 0) r', tg_relid::regclass)
    using seriatim.documents_now({oid});
