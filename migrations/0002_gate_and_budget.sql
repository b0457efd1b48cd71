CREATE TABLE `budgets` (
	`scope` text PRIMARY KEY NOT NULL,
	`cap_micro` integer,
	`used_micro` integer DEFAULT 0 NOT NULL,
	`cap_tokens` integer,
	`used_tokens` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE `gate_slots` (
	`provider` text NOT NULL,
	`worker_id` text NOT NULL,
	`held` integer NOT NULL,
	PRIMARY KEY(`provider`, `worker_id`),
	FOREIGN KEY (`worker_id`) REFERENCES `workers`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `gates` (
	`provider` text PRIMARY KEY NOT NULL,
	`paused_until` integer,
	`reason` text,
	`concurrency` integer,
	`minute` integer DEFAULT 0 NOT NULL,
	`minute_requests` integer DEFAULT 0 NOT NULL,
	`minute_tokens` integer DEFAULT 0 NOT NULL,
	`updated_at` integer NOT NULL
);
--> statement-breakpoint
DROP INDEX `calls_open`;--> statement-breakpoint
ALTER TABLE `model_calls` ADD `reserved_tokens` integer;