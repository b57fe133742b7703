--- The chat: a transcript window that streams Markdown and a prompt window below it. Shows state, decides nothing.
local config = require('pilotfish.config')
local question = require('pilotfish.question')
local render = require('pilotfish.render')
local transcripts = require('pilotfish.transcript')

local M = {}

local DRAW_MS = 30 -- updates are drawn together at this interval

---@type pilotfish.Transcript
M.transcript = transcripts.new()
--- Content blocks that go with the next prompt.
M.attachments = {}
--- What the keys of the chat do. Set by the session module.
M.actions = {}

local buffers = {} ---@type { transcript?: integer, prompt?: integer }
local windows = {} ---@type { transcript?: integer, prompt?: integer }
local drawn = {} ---@type { item: table, count: integer }[] what the buffer holds, by item
local pending = {} ---@type table<table, string|true> items to draw: true, or the text to append
local scheduled = false

local function valid(win) return win ~= nil and vim.api.nvim_win_is_valid(win) end

function M.is_open() return valid(windows.transcript) or valid(windows.prompt) end

-- Buffers -----------------------------------------------------------------------------------------------------------

local function map(buf, mode, key, action, desc)
  if not key then return end
  vim.keymap.set(mode, key, action, { buffer = buf, nowait = true, desc = 'Pilotfish: ' .. desc })
end

local function act(name) return function() M.actions[name]() end end

local function make_transcript()
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, 'pilotfish://chat')
  vim.bo[buf].bufhidden = 'hide'
  vim.bo[buf].swapfile = false
  vim.bo[buf].modifiable = false
  vim.bo[buf].undolevels = -1
  vim.bo[buf].filetype = 'pilotfish'
  if not pcall(vim.treesitter.start, buf, 'markdown') then vim.bo[buf].syntax = 'markdown' end
  local keys = config.options.keys
  map(buf, 'n', keys.details, M.show_details, 'show the call under the cursor')
  map(buf, 'n', keys.stop, act('stop'), 'stop the turn')
  map(buf, 'n', keys.close, M.close, 'close the chat')
  map(buf, 'n', keys.compose, function() M.focus_prompt(true) end, 'write a prompt')
  return buf
end

local function make_prompt()
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, 'pilotfish://prompt')
  vim.bo[buf].bufhidden = 'hide'
  vim.bo[buf].swapfile = false
  vim.bo[buf].filetype = 'pilotfish-prompt'
  vim.bo[buf].omnifunc = "v:lua.require'pilotfish.complete'.omnifunc"
  local keys = config.options.keys
  map(buf, 'n', keys.send, act('send'), 'send the prompt')
  map(buf, 'i', keys.send_insert, function()
    vim.cmd.stopinsert()
    M.actions.send()
  end, 'send the prompt')
  map(buf, 'n', keys.steer, act('steer'), 'send the prompt into the running turn')
  map(buf, 'n', keys.stop, act('stop'), 'stop the turn')
  return buf
end

local function ensure_buffers()
  for name, make in pairs({ transcript = make_transcript, prompt = make_prompt }) do
    if not buffers[name] or not vim.api.nvim_buf_is_valid(buffers[name]) then
      buffers[name] = make()
      if name == 'transcript' then
        drawn = {}
        M.redraw()
      end
    end
  end
end

-- Windows -----------------------------------------------------------------------------------------------------------

local function dress(win, options)
  for name, value in pairs(vim.tbl_extend('force', {
    number = false,
    relativenumber = false,
    signcolumn = 'no',
    foldcolumn = '0',
    spell = false,
    list = false,
    wrap = true,
    linebreak = true,
    winfixwidth = true,
    fillchars = 'eob: ',
  }, options)) do
    vim.api.nvim_set_option_value(name, value, { win = win, scope = 'local' })
  end
end

--- Opens the chat where it is not open, without moving the cursor there.
function M.open()
  ensure_buffers()
  if not valid(windows.transcript) then
    local width = config.options.width
    if width < 1 then width = math.floor(vim.o.columns * width) end
    local anchor = valid(windows.prompt) and windows.prompt or nil
    windows.transcript = vim.api.nvim_open_win(buffers.transcript, false, anchor and { split = 'above', win = anchor }
      or { split = 'right', win = -1, width = math.max(20, width) })
    dress(windows.transcript, { conceallevel = 2, concealcursor = 'nc', breakindent = true })
    local count = vim.api.nvim_buf_line_count(buffers.transcript)
    vim.api.nvim_win_set_cursor(windows.transcript, { count, 0 })
  end
  if not valid(windows.prompt) then
    windows.prompt = vim.api.nvim_open_win(buffers.prompt, false, {
      split = 'below',
      win = windows.transcript,
      height = config.options.prompt_height,
    })
    dress(windows.prompt, { winfixheight = true })
  end
  M.draw_bars()
end

function M.close()
  for _, win in pairs(windows) do
    if valid(win) then pcall(vim.api.nvim_win_close, win, true) end
  end
  windows = {}
end

--- Opens the chat and goes to the prompt.
---@param insert? boolean also start to write
function M.focus_prompt(insert)
  M.open()
  vim.api.nvim_set_current_win(windows.prompt)
  if insert then vim.cmd('startinsert!') end
end

question.in_chat = function()
  local buf = vim.api.nvim_get_current_buf()
  return buf == buffers.transcript or buf == buffers.prompt
end

-- The prompt ----------------------------------------------------------------------------------------------------------

--- The text in the prompt.
function M.prompt_text()
  ensure_buffers()
  return vim.trim(table.concat(vim.api.nvim_buf_get_lines(buffers.prompt, 0, -1, false), '\n'))
end

---@param text string
function M.set_prompt(text)
  ensure_buffers()
  vim.api.nvim_buf_set_lines(buffers.prompt, 0, -1, false, vim.split(text, '\n'))
end

---@param block table
function M.attach(block)
  table.insert(M.attachments, block)
  M.draw_bars()
end

-- Drawing -------------------------------------------------------------------------------------------------------------

local PHASES = {
  user_input = 'starting',
  assistant = 'thinking',
  tool_execution = 'working',
  response = 'answering',
}

--- What the session is doing, in one word; nil between turns.
function M.activity()
  if question.count() > 0 then return 'asks you' end
  return PHASES[M.transcript.phase]
end

local function escape(text) return (text:gsub('%%', '%%%%'):gsub('%c', ' ')) end

--- Draws the bars above the two windows.
function M.draw_bars()
  local session = M.transcript.session
  if valid(windows.transcript) then
    local parts = { session and session.title ~= '' and session.title or 'Pilotfish' }
    if session then vim.list_extend(parts, { session.model, session.mode }) end
    if M.transcript.context then
      local window = M.transcript.window
      table.insert(parts, render.tokens(M.transcript.context) .. (window and '/' .. render.tokens(window) or ''))
    end
    table.insert(parts, M.activity())
    vim.wo[windows.transcript].winbar = escape(table.concat(parts, ' · '))
  end
  if valid(windows.prompt) then
    local keys, parts = config.options.keys, {}
    local busy = M.transcript:busy()
    if keys.send then table.insert(parts, keys.send .. (busy and ' queue' or ' send')) end
    if busy and keys.steer then table.insert(parts, keys.steer .. ' steer') end
    if busy and keys.stop then table.insert(parts, keys.stop .. ' stop') end
    if #M.transcript.queue > 0 then table.insert(parts, #M.transcript.queue .. ' waiting (:PilotfishQueue)') end
    for _, block in ipairs(M.attachments) do table.insert(parts, render.prompt_text({ block })) end
    vim.wo[windows.prompt].winbar = escape(table.concat(parts, '  '))
  end
  vim.cmd.redrawstatus({ bang = true })
end
question.on_change = function() M.draw_bars() end

--- Runs `change(buf)` on the transcript and keeps windows at its end that were there.
local function edit_transcript(change)
  local buf = buffers.transcript
  local count = vim.api.nvim_buf_line_count(buf)
  local following = vim.tbl_filter(function(win)
    return vim.api.nvim_win_get_cursor(win)[1] >= count
  end, vim.fn.win_findbuf(buf))
  vim.bo[buf].modifiable = true
  change(buf)
  vim.bo[buf].modifiable = false
  count = vim.api.nvim_buf_line_count(buf)
  for _, win in ipairs(following) do vim.api.nvim_win_set_cursor(win, { count, 0 }) end
end

--- Items whose lines say what another item already shows are left out.
local function lines_of(item)
  if item.kind == 'file_change' and item.callId then
    local call = M.transcript.by_id[item.callId]
    if call and call.call.diff then return {} end
  end
  return render.item(item)
end

local function index_of(item)
  for index = #drawn, 1, -1 do
    if drawn[index].item == item then return index end
  end
end

--- The first line of an item, from 0. Counted from the end, where almost all changes are.
local function start_of(index, total)
  local start = total
  for position = #drawn, index, -1 do start = start - drawn[position].count end
  return start
end

local function draw_item(buf, item, appended)
  local total = vim.api.nvim_buf_line_count(buf) - 1 -- the last line of the buffer is always empty
  local index = index_of(item)
  if not index then
    local lines = lines_of(item)
    vim.api.nvim_buf_set_lines(buf, total, total, false, lines)
    table.insert(drawn, { item = item, count = #lines })
    return
  end
  local start, count = start_of(index, total), drawn[index].count
  if appended ~= true and count > 1 then
    if item.kind == 'thought' then appended = render.quoted(appended) end
    local last = start + count - 2 -- the line before the item's empty one
    local line = vim.api.nvim_buf_get_lines(buf, last, last + 1, false)[1]
    local lines = vim.split(line .. appended, '\r?\n')
    vim.api.nvim_buf_set_lines(buf, last, last + 1, false, lines)
    drawn[index].count = count + #lines - 1
    return
  end
  local lines = lines_of(item)
  vim.api.nvim_buf_set_lines(buf, start, start + count, false, lines)
  drawn[index].count = #lines
end

local function flush()
  scheduled = false
  local items = pending
  pending = {}
  if not buffers.transcript or not vim.api.nvim_buf_is_valid(buffers.transcript) then return end
  edit_transcript(function(buf)
    for _, item in ipairs(M.transcript.items) do
      if items[item] then draw_item(buf, item, items[item]) end
    end
  end)
  M.draw_bars()
end

--- Draws an item soon. With `appended`, only that text was added at its end.
---@param item table?
---@param appended? string
function M.changed(item, appended)
  if item then
    local known = pending[item]
    if appended and known == nil then
      pending[item] = index_of(item) and appended or true
    elseif appended and type(known) == 'string' then
      pending[item] = known .. appended
    else
      pending[item] = true
    end
  end
  if scheduled then return end
  scheduled = true
  vim.defer_fn(flush, DRAW_MS)
end

--- Draws the whole transcript anew.
function M.redraw()
  if not buffers.transcript or not vim.api.nvim_buf_is_valid(buffers.transcript) then return end
  pending, drawn = {}, {}
  local all = {}
  if M.transcript.has_more then vim.list_extend(all, { '*Older messages: `:PilotfishOlder`*', '' }) end
  local head = { item = {}, count = #all }
  table.insert(drawn, head)
  for _, item in ipairs(M.transcript.items) do
    local lines = lines_of(item)
    vim.list_extend(all, lines)
    table.insert(drawn, { item = item, count = #lines })
  end
  table.insert(all, '')
  edit_transcript(function(buf) vim.api.nvim_buf_set_lines(buf, 0, -1, false, all) end)
  M.draw_bars()
end

--- Shows another transcript.
---@param transcript pilotfish.Transcript
function M.show(transcript)
  M.transcript = transcript
  M.redraw()
end

-- Details -------------------------------------------------------------------------------------------------------------

--- The item at a line of the transcript, from 1.
function M.item_at(line)
  local last = 0
  for _, entry in ipairs(drawn) do
    last = last + entry.count
    if line <= last then return entry.item end
  end
end

--- Shows the whole call, or the changed file, under the cursor.
function M.show_details()
  local item = M.item_at(vim.api.nvim_win_get_cursor(0)[1])
  if not item then return end
  if item.kind == 'file_change' then
    vim.cmd.wincmd('p')
    return vim.cmd.edit(vim.fn.fnameescape(vim.uri_to_fname(item.uri)))
  end
  if item.kind ~= 'tool_call' then return end
  local lines = {}
  for _, line in ipairs(render.call_details(item)) do vim.list_extend(lines, vim.split(line, '\n')) end
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modifiable = false
  vim.bo[buf].bufhidden = 'wipe'
  if not pcall(vim.treesitter.start, buf, 'markdown') then vim.bo[buf].syntax = 'markdown' end
  local width, height = math.min(110, vim.o.columns - 6), math.min(#lines + 1, vim.o.lines - 6)
  local win = vim.api.nvim_open_win(buf, true, {
    relative = 'editor',
    style = 'minimal',
    border = 'rounded',
    width = width,
    height = height,
    row = math.floor((vim.o.lines - height) / 2) - 1,
    col = math.floor((vim.o.columns - width) / 2),
    title = ' ' .. render.one_line(item.call.title) .. ' ',
    footer = ' q closes ',
  })
  vim.wo[win].wrap = true
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buf, nowait = true })
end

return M
