/**
 * Whether the caller may do something to a resource, in the API's names of actions: `may(m, 'media.delete')`. The API says
 * so in `can`. `otherwise` stands in for answers that do not have it, such as the rows of a list.
 */
export const may = (resource, action, otherwise = false) => (resource?.can ? resource.can.includes(action) : otherwise)
