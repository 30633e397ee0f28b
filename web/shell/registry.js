import { Events } from '../events/list.js'
import { Event } from '../events/view.js'
import { Highlights } from '../highlights/list.js'
import { HighlightView } from '../highlights/view.js'
import { Photos } from '../library/photos.js'
import { Trash } from '../library/trash.js'

/** The views by their names in the address, see shell/views.js. Each gets `{org, me, organizations, id, onFound}`. */
export const VIEWS = { photos: Photos, highlights: Highlights, highlight: HighlightView, events: Events, event: Event, trash: Trash }
