/**
 * Mirrors `migrations/*.sql`, which are authoritative; a test compares the two. One file per feature; columns are
 * camelCase here and snake_case there.
 */
export * from './albums.ts'
export * from './audit.ts'
export * from './comments.ts'
export * from './consumers.ts'
export * from './events.ts'
export * from './feed-versions.ts'
export * from './highlights.ts'
export * from './idempotency.ts'
export * from './invitations.ts'
export * from './limits.ts'
export * from './media.ts'
export * from './notifications.ts'
export * from './organizations.ts'
export * from './outbox.ts'
export * from './reactions.ts'
export * from './sessions.ts'
export * from './signing-keys.ts'
export * from './timeline.ts'
export * from './uploads.ts'
export * from './users.ts'
