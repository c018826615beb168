-- Steps: a rung of a ladder that adds up, compared with the one before it.
ALTER TABLE t_comparison ADD COLUMN over INTEGER REFERENCES t_side (key); -- the side it is compared with; NULL: the group's control
ALTER TABLE t_comparison ADD COLUMN added TEXT;     -- of a step: what it adds, as in t_side
ALTER TABLE t_comparison ADD COLUMN added_key TEXT;
