import { $, announce } from './dom.js'
import { currentOrganization, look } from './library.js'
import { uploadOf } from './upload.js'
import { size } from './words.js'

function add(files) {
  for (const file of files) start(file, currentOrganization().org_id)
}

function start(file, org) {
  const row = $('upload').content.firstElementChild.cloneNode(true)
  const [bar, text, retry, cancel] = ['progress', '.text', '.retry', '.cancel'].map((s) => row.querySelector(s))
  row.querySelector('.name').textContent = file.name
  bar.ariaLabel = `Upload of ${file.name}`
  $('uploads').append(row)
  let began
  let told = 0

  const upload = uploadOf(org, file, (sent) => {
    const percent = Math.floor((sent / file.size) * 100)
    const rate = sent / ((performance.now() - began) / 1000)
    bar.value = percent
    text.textContent = `${size(sent)} of ${size(file.size)} · ${percent} % · ${size(rate)}/s`
    if (percent >= told + 25) announce(`${file.name}: ${percent} percent uploaded`)
    told = Math.max(told, Math.floor(percent / 25) * 25)
  })

  async function run() {
    began = performance.now()
    row.classList.remove('failed')
    retry.hidden = true
    text.textContent = 'Starting'
    try {
      await upload.run()
      row.remove()
      announce(`${file.name} is uploaded and is being converted`)
      await look()
    } catch (error) {
      if (error.name === 'AbortError') return
      row.classList.add('failed')
      text.textContent = error.message
      retry.hidden = false
      announce(`The upload of ${file.name} stopped: ${error.message}`)
    }
  }
  retry.addEventListener('click', run)
  cancel.addEventListener('click', () => {
    row.remove()
    void upload.cancel()
  })
  void run()
}

$('file').addEventListener('change', () => {
  add($('file').files)
  $('file').value = ''
})
let depth = 0
const dragging = (event) => !$('library').hidden && event.dataTransfer?.types.includes('Files')
addEventListener('dragenter', (event) => {
  if (dragging(event)) $('drop').hidden = ++depth < 1
})
addEventListener('dragleave', (event) => {
  if (dragging(event)) $('drop').hidden = --depth < 1
})
addEventListener('dragover', (event) => event.preventDefault())
addEventListener('drop', (event) => {
  event.preventDefault()
  depth = 0
  $('drop').hidden = true
  if (dragging(event)) add(event.dataTransfer.files)
})
