import type { World } from './world.ts'

/** Of an organization whose pages are measured. */
export const ROWS = 5000

/** Thousands of media in the organization, half of them converted. */
export async function fillMedia({ database, orgId, userId }: World, rows: number): Promise<void> {
  await database.admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
        conversion_state, output_prefix, hls_master, created_at)
      select id, org, $2, 'IMG_' || n || '.MOV', 'video/mp4', 'video', 40000000 + n,
        case when n % 2 = 0 then 'completed' else 'processing' end,
        case when n % 2 = 0 then 'succeeded' else 'queued' end,
        case when n % 2 = 0 then 'org/' || org || '/media/' || id || '/v1/' end,
        case when n % 2 = 0 then 'master.m3u8' end,
        now() - make_interval(secs => n)
      from (select n, gen_random_uuid() as id, $1::uuid as org from generate_series(1, $3::int) n) rows`,
    [orgId, userId, rows],
  )
  await database.admin.query('vacuum analyze')
}
