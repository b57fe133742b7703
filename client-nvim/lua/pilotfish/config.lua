--- Options of the plugin: the defaults, and what the user passed to `setup`.
local M = {}

---@class pilotfish.Config
M.defaults = {
  --- How the server is started.
  cmd = { 'pilotfish', 'serve' },
  --- Settings of the server: model, mode, baseUrl and so on, named as in PROTOCOL.md.
  settings = {},
  --- Workspace trust: nil asks once for each folder and remembers the answer; true, false, or function(folder) decide.
  trusted = nil,
  --- The workspace folder, or function(bufnr) that returns it. nil: the folder above the current file with `.git`,
  --- else the working directory.
  root = nil,
  --- Columns of the chat window: a number, or a share of the screen below 1.
  width = 0.42,
  --- Lines of the prompt window.
  prompt_height = 5,
  --- Mark lines that the agent changed until they are kept or undone (`:PilotfishReview`).
  marks = true,
  --- Send with each prompt where the cursor is, what is around it, and the problems of that file.
  --- `:PilotfishContext` switches it.
  context = true,
  --- Keys of the chat. `false` leaves a key out.
  keys = {
    send = '<CR>', -- normal mode, prompt
    send_insert = '<C-s>', -- insert mode, prompt
    steer = 'gs', -- normal mode, prompt: reaches the running turn at its next step
    stop = '<C-c>', -- normal mode, prompt and transcript
    details = '<CR>', -- transcript: the whole call under the cursor
    close = 'q', -- transcript
    compose = 'i', -- transcript: go to the prompt
  },
}

---@type pilotfish.Config
M.options = vim.deepcopy(M.defaults)

---@param options? table
function M.setup(options)
  M.options = vim.tbl_deep_extend('force', vim.deepcopy(M.defaults), options or {})
end

return M
