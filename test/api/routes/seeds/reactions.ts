import { aComment } from './comments.ts'
import { made, type Seeds, type Side } from './seed.ts'

const EMOJIS = ['❤️', '😂', '🎉', '😢', '👏', '🔥']
let count = 0

const toComment = async (side: Side) => {
  const { params } = await aComment(side)
  return {
    as: side.person,
    params: { org_id: side.org, event_id: params.event_id, action_destination: 'comment' },
    json: { action_id: params.comment_id, emoji: EMOJIS[count++ % EMOJIS.length] },
  }
}

export const reactionSeeds: Seeds = {
  react: toComment,
  removeReaction: async (side) => {
    const { api } = side
    const { as, params, json } = await toComment(side)
    const path = `/api/orgs/${params.org_id}/events/${params.event_id}/reactions/comment`
    const { reaction_id } = await made(api.call(as, 'POST', path, { json }))
    return { as, params: { ...params, reaction_id } }
  },
}
