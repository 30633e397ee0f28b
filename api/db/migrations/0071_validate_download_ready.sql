-- Constraints of migration 0070, without keeping writers out.
alter table notifications validate constraint notifications_template_check;
alter table notifications validate constraint notifications_of_one_cause;
