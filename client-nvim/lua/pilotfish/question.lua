--- Questions to the user: a float with the whole text, scrollable, and a second one below it with the keys.
---
--- One question is shown at a time, the oldest first. A float takes the focus only when the user is in the chat and not
--- typing, so that a keystroke meant for a file is never an answer; `:PilotfishApprove` goes to it from anywhere.
local render = require('pilotfish.render')

local M = {}

local GRACE_MS = 400 -- keys are not answers this soon after a float took the focus by itself

---@class pilotfish.Choice
---@field key string
---@field label string
---@field run fun(done: fun()) calls `done` when the question is over

---@class pilotfish.Question
---@field id string
---@field title string
---@field lines string[]
---@field filetype? string
---@field choices pilotfish.Choice[]
---@field focus? boolean the user has just asked for what it is about, so it takes the focus

local queue = {} ---@type pilotfish.Question[]
local shown ---@type { question: pilotfish.Question, win: integer, keys_win: integer, buf: integer }?

--- Whether the current window belongs to the chat. Set by the chat.
M.in_chat = function() return false end
--- Called when the number of waiting questions changes.
M.on_change = function() end

local function close_windows()
  if not shown then return end
  local closing = shown
  shown = nil
  for _, win in ipairs({ closing.keys_win, closing.win }) do
    if vim.api.nvim_win_is_valid(win) then vim.api.nvim_win_close(win, true) end
  end
end

local function scratch(lines, filetype)
  local buf = vim.api.nvim_create_buf(false, true)
  -- A line break inside a line cannot be in a buffer; it is shown as text instead.
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.tbl_map(function(line) return (line:gsub('\n', '\\n')) end, lines))
  vim.bo[buf].bufhidden = 'wipe'
  vim.bo[buf].modifiable = false
  if filetype then vim.bo[buf].filetype = filetype end
  return buf
end

local function float(buf, enter, options)
  local win = vim.api.nvim_open_win(buf, enter, vim.tbl_extend('force', {
    relative = 'editor',
    style = 'minimal',
    border = 'rounded',
    zindex = 60,
  }, options))
  vim.wo[win].wrap = true
  vim.wo[win].linebreak = options.focusable == false
  vim.wo[win].breakindent = true
  vim.wo[win].breakindentopt = options.focusable == false and 'shift:3' or ''
  vim.wo[win].list = false
  return win
end

--- Gives both floats the height of their text, the keys first: they are always whole.
local function fit(win, keys_win)
  local lines = vim.o.lines - vim.o.cmdheight
  local keys_height = math.min(vim.api.nvim_win_text_height(keys_win, {}).all, math.max(1, lines - 7))
  local wanted = vim.api.nvim_win_text_height(win, {}).all
  local height = math.max(1, math.min(wanted, lines - keys_height - 5))
  local row = math.max(0, math.floor((lines - height - keys_height - 4) / 2))
  local function place(target, at, tall, more)
    local now = vim.api.nvim_win_get_config(target)
    local changes = { relative = 'editor', row = at, col = now.col, height = tall }
    vim.api.nvim_win_set_config(target, vim.tbl_extend('force', changes, more or {}))
  end
  place(win, row, height, wanted > height and { footer = ' scroll for more ', footer_pos = 'right' } or nil)
  place(keys_win, row + height + 2, keys_height)
end

--- The lines of the lower float: every key with what it does.
local function key_lines_of(question)
  local lines = vim.tbl_map(function(choice) return string.format(' %s  %s', choice.key, choice.label) end, question.choices)
  local waiting = #queue > 1 and string.format(' (%d questions wait)', #queue) or ''
  table.insert(lines, ' q  decide later: :PilotfishApprove shows it again' .. waiting)
  return lines
end

local function draw(question, enter)
  close_windows()
  local key_lines = key_lines_of(question)
  local width = math.max(20, math.min(100, vim.o.columns - 4))
  local place = { width = width, height = 1, row = 0, col = math.floor((vim.o.columns - width) / 2) }
  local buf = scratch(question.lines, question.filetype)
  local title = ' ' .. render.one_line(question.title) .. ' '
  local win = float(buf, enter, vim.tbl_extend('force', place, { title = title, title_pos = 'left' }))
  local keys_win = float(scratch(key_lines), false, vim.tbl_extend('force', place, { focusable = false }))
  fit(win, keys_win)
  shown = { question = question, win = win, keys_win = keys_win, buf = buf }

  local allowed_at = vim.uv.now() + (enter and GRACE_MS or 0)
  local function answer(choice)
    if vim.uv.now() < allowed_at then return end
    choice.run(function() M.close(question.id) end)
  end
  for _, choice in ipairs(question.choices) do
    vim.keymap.set('n', choice.key, function() answer(choice) end, { buffer = buf, nowait = true, desc = choice.label })
  end
  vim.keymap.set('n', 'q', close_windows, { buffer = buf, nowait = true, desc = 'decide later' })
  vim.api.nvim_create_autocmd('WinClosed', {
    pattern = tostring(win),
    once = true,
    callback = vim.schedule_wrap(function()
      if shown and shown.win == win then close_windows() end
    end),
  })
end

--- Draws the keys anew: the number of questions that wait has changed.
local function draw_keys()
  local buf = vim.api.nvim_win_get_buf(shown.keys_win)
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, key_lines_of(shown.question))
  vim.bo[buf].modifiable = false
end

--- Adds a question and shows it if none is shown.
---@param question pilotfish.Question
function M.add(question)
  for _, known in ipairs(queue) do
    if known.id == question.id then return end
  end
  table.insert(queue, question)
  if shown then
    draw_keys()
  else
    local free = question.focus or (M.in_chat() and vim.api.nvim_get_mode().mode == 'n')
    draw(queue[1], free)
    if not free then
      vim.notify('Pilotfish asks: ' .. vim.fn.strcharpart(render.one_line(question.title), 0, 30) .. ' (:PilotfishApprove goes there)', vim.log.levels.INFO)
    end
  end
  M.on_change()
end

--- Ends a question, answered or not, and shows the next one.
---@param id string
function M.close(id)
  local focused = shown ~= nil and vim.api.nvim_get_current_win() == shown.win
  queue = vim.tbl_filter(function(question) return question.id ~= id end, queue)
  if shown and shown.question.id == id then
    close_windows()
    if queue[1] then draw(queue[1], focused) end
  end
  M.on_change()
end

--- Shows the oldest question and goes to it. Returns false if none waits.
function M.focus()
  if not queue[1] then return false end
  if shown and vim.api.nvim_win_is_valid(shown.win) then
    vim.api.nvim_set_current_win(shown.win)
  else
    draw(queue[1], false)
    vim.api.nvim_set_current_win(shown.win)
  end
  return true
end

--- The number of questions that wait.
function M.count() return #queue end

--- Ends all questions: the server is gone.
function M.clear()
  queue = {}
  close_windows()
  M.on_change()
end

vim.api.nvim_create_autocmd('VimResized', {
  group = vim.api.nvim_create_augroup('pilotfish_question', {}),
  callback = function()
    if shown then draw(shown.question, vim.api.nvim_get_current_win() == shown.win) end
  end,
})

return M
