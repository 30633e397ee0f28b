import * as z from 'zod'

/** In answers with one resource, and in lists whose rows have menus. Filled by `now` of the request. */
export const Can = z.array(z.string()).meta({
  id: 'Can',
  description:
    'The actions on this resource that the caller may perform now, in the names of `x-permission`: those that the rules allow, that the state of the resource does not refuse, and that would change something or show something. What a request names besides the resource may still be refused. Clients ignore names that they do not know.',
  example: ['comment.edit', 'comment.delete'],
})
