--- Inline edits: an instruction for a place in a buffer. The server runs each edit in a session of its own, and what it
--- changes is pending, marked in the buffer and kept or undone with `:PilotfishReview`. An instruction for a place that
--- an earlier edit changed refines that edit.
local connection = require('pilotfish.connection')
local positions = require('pilotfish.positions')
local review = require('pilotfish.review')

local M = {}

local namespace = vim.api.nvim_create_namespace('pilotfish_inline_edit')
local sessions = {} ---@type table<string, true> the sessions of inline edits
local running = {} ---@type table<integer, true> the requests that are not answered

vim.api.nvim_set_hl(0, 'PilotfishEditing', { default = true, link = 'Visual' })

--- Marks the lines of a place while an edit runs; returns what removes the marks.
local function mark(place)
  local buf = connection.loaded(place.uri)
  if not buf then return function() end end
  local first, last = positions.rows(buf, place.range)
  local id = vim.api.nvim_buf_set_extmark(buf, namespace, first, 0, {
    end_row = last,
    line_hl_group = 'PilotfishEditing',
    virt_text = { { 'Pilotfish is editing…  :PilotfishStop', 'PilotfishHint' } },
  })
  return function()
    if vim.api.nvim_buf_is_valid(buf) then vim.api.nvim_buf_del_extmark(buf, namespace, id) end
  end
end

local function ended(error, result)
  review.refresh()
  if error then return connection.report(error) end
  if result.sessionId then sessions[result.sessionId] = true end
  if result.error then return connection.report({ message = result.error.message, data = result.error }) end
  if result.stopReason == 'cancelled' then return vim.notify('Pilotfish: stopped') end
  if #(result.hunkIds or {}) > 0 then return end
  vim.notify('Pilotfish has changed nothing here; :PilotfishSessions has its answer')
end

local function send(method, place, params)
  local unmark, id = mark(place), nil
  _, id = connection.request(method, params, function(error, result)
    unmark()
    if id then running[id] = nil end
    ended(error, result)
  end)
  if id then running[id] = true end
end

--- Edits at a place; asks for the instruction where there is none.
---@param place { uri: string, range: table }
---@param instruction? string
function M.start(place, instruction)
  require('pilotfish.session').connected(function()
    review.at(place, function(file)
      local refined = file and sessions[file.sessionId] and file.sessionId or nil
      local function run(prompt)
        if not prompt or vim.trim(prompt) == '' then return end
        send('edit/inline', place, vim.tbl_extend('error', { prompt = prompt, sessionId = refined }, place))
      end
      if instruction and instruction ~= '' then return run(instruction) end
      vim.ui.input({ prompt = refined and 'What should be different? ' or 'What should change here? ' }, run)
    end)
  end)
end

--- Undoes the edit at a place and runs its instruction again.
function M.retry(place)
  review.at(place, function(file)
    if not file or not sessions[file.sessionId] then return vim.notify('Pilotfish: no inline edit is under the cursor') end
    send('edit/retry', place, { sessionId = file.sessionId })
  end)
end

--- Stops the edits that run; returns whether there was one.
function M.stop()
  local any = next(running) ~= nil
  for id in pairs(running) do connection.cancel(id) end
  return any
end

return M
