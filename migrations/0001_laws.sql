-- What drizzle's schema cannot say: the laws of the log, kept by the database itself.
-- (WITHOUT ROWID is written into the tables of 0000 by hand for the same reason.)
CREATE TRIGGER `runs_one_outcome` BEFORE UPDATE OF `status`, `reason`, `epoch`, `seq`, `steps` ON `runs`
WHEN OLD.`status` IN ('succeeded', 'failed', 'cancelled')
BEGIN SELECT RAISE(ABORT, 'a terminal outcome is final'); END;
--> statement-breakpoint
-- The second half stands against REPLACE, which fires no trigger for the row that it deletes.
CREATE TRIGGER `messages_fenced` BEFORE INSERT ON `messages`
WHEN NOT EXISTS (SELECT 1 FROM `runs` WHERE `id` = NEW.`run_id` AND `status` = 'running' AND `epoch` = NEW.`epoch` AND `seq` = NEW.`seq`)
  OR EXISTS (SELECT 1 FROM `messages` WHERE (`run_id` = NEW.`run_id` AND `seq` = NEW.`seq`) OR `id` = NEW.`id`)
BEGIN SELECT RAISE(ABORT, 'the message does not belong to the running epoch at the next seq'); END;
--> statement-breakpoint
CREATE TRIGGER `messages_frozen` BEFORE UPDATE ON `messages`
BEGIN SELECT RAISE(ABORT, 'the message log is append-only'); END;
--> statement-breakpoint
CREATE TRIGGER `messages_kept` BEFORE DELETE ON `messages`
WHEN EXISTS (SELECT 1 FROM `runs` WHERE `id` = OLD.`run_id`)
BEGIN SELECT RAISE(ABORT, 'the message log is append-only'); END;
--> statement-breakpoint
INSERT INTO `batches` (`id`, `name`, `created_at`) VALUES ('b0', NULL, 0);
