-- The search path that sessions of this role begin with. Listing all settings takes as long as reading many rows, so it is asked for seldom.
select s.reset_val from pg_settings s where s.name = 'search_path'
