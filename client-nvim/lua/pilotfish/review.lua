--- The review in the buffer: marks what the agent changed and nobody has kept yet, and keeps or undoes it hunk by hunk.
---
--- The server knows the hunks (`review/list`). Their ids change while the user types, so they are asked for again before
--- each decision.
local config = require('pilotfish.config')
local connection = require('pilotfish.connection')
local positions = require('pilotfish.positions')

local M = {}

local REFRESH_MS = 150 -- several changes in a row are asked for once
local namespace = vim.api.nvim_create_namespace('pilotfish_marks')
local timer = assert(vim.uv.new_timer())

vim.api.nvim_set_hl(0, 'PilotfishChanged', { default = true, link = 'DiffAdd' })
vim.api.nvim_set_hl(0, 'PilotfishDeleted', { default = true, link = 'DiffDelete' })
vim.api.nvim_set_hl(0, 'PilotfishHint', { default = true, link = 'Comment' })

local function draw(buf, hunks)
  for index, hunk in ipairs(hunks) do
    local first, last = positions.rows(buf, hunk.range)
    for row = first, last do
      vim.api.nvim_buf_set_extmark(buf, namespace, row, 0, {
        sign_text = hunk.after ~= '' and '▎' or '▁',
        sign_hl_group = hunk.after ~= '' and 'PilotfishChanged' or 'PilotfishDeleted',
        line_hl_group = hunk.after ~= '' and 'PilotfishChanged' or nil,
      })
    end
    local removed = {}
    for _, line in ipairs(hunk.before ~= '' and vim.split((hunk.before:gsub('\n$', '')), '\n') or {}) do
      table.insert(removed, { { line == '' and ' ' or line, 'PilotfishDeleted' } })
    end
    vim.api.nvim_buf_set_extmark(buf, namespace, first, 0, {
      virt_text = { { string.format('Pilotfish %d/%d  :PilotfishReview keep | undo', index, #hunks), 'PilotfishHint' } },
      virt_lines = #removed > 0 and removed or nil,
      virt_lines_above = true,
    })
  end
end

local function clear()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do vim.api.nvim_buf_clear_namespace(buf, namespace, 0, -1) end
end

--- Calls `callback(files)` with every file that has pending changes.
local function list(callback)
  connection.request('review/list', {}, function(error, result)
    if error then return connection.report(error) end
    callback(result.files)
  end)
end

--- Calls `callback(file)` with the file of a pending hunk that shares a line with a place, or nil.
---@param place { uri: string, range: table }
function M.at(place, callback)
  local buf = connection.loaded(place.uri)
  list(function(files)
    for _, file in ipairs(buf and files or {}) do
      local from, to = positions.rows(buf, place.range)
      for _, hunk in ipairs(file.uri == place.uri and file.hunks or {}) do
        local first, last = positions.rows(buf, hunk.range)
        if first <= to and from <= last then return callback(file) end
      end
    end
    callback(nil)
  end)
end

--- Asks for the pending changes and marks them, shortly after the last call.
function M.refresh()
  if not config.options.marks then return end
  timer:start(REFRESH_MS, 0, vim.schedule_wrap(function()
    if not connection.client() then return clear() end
    list(function(files)
      clear()
      for _, file in ipairs(files) do
        local buf = connection.loaded(file.uri)
        if buf and file.change ~= 'deleted' then draw(buf, file.hunks) end
      end
    end)
  end))
end

local function is_marked(buf) return #vim.api.nvim_buf_get_extmarks(buf, namespace, 0, -1, { limit = 1 }) > 0 end

vim.api.nvim_create_autocmd({ 'TextChanged', 'InsertLeave', 'BufReadPost' }, {
  group = vim.api.nvim_create_augroup('pilotfish_review', {}),
  callback = function(event)
    if event.event == 'BufReadPost' or is_marked(event.buf) then M.refresh() end
  end,
})

--- Keeps or undoes the hunk under the cursor, or all hunks of the file.
---@param decision 'keep'|'undo'
---@param whole_file boolean
function M.decide(decision, whole_file)
  local buf, row = vim.api.nvim_get_current_buf(), vim.api.nvim_win_get_cursor(0)[1] - 1
  local uri = vim.uri_from_bufnr(buf)
  list(function(files)
    for _, file in ipairs(files) do
      local ids = {}
      for _, hunk in ipairs(file.uri == uri and file.hunks or {}) do
        local first, last = positions.rows(buf, hunk.range)
        if whole_file or (first <= row and row <= last) then table.insert(ids, hunk.id) end
      end
      if #ids > 0 then
        local params = { sessionId = file.sessionId, uri = uri, hunkIds = not whole_file and ids or nil }
        return connection.request('review/' .. decision, params, function(error, result)
          if error then return connection.report(error) end
          for _, refused in ipairs(result.refused or {}) do
            vim.notify('Pilotfish: not undone: ' .. refused.reason, vim.log.levels.WARN)
          end
          M.refresh()
        end)
      end
    end
    vim.notify('Pilotfish: no change of the agent is under the cursor')
  end)
end

--- Goes to the next or the previous pending hunk, over all files.
---@param step 1|-1
function M.go(step)
  local uri, row = vim.uri_from_bufnr(0), vim.api.nvim_win_get_cursor(0)[1] - 1
  list(function(files)
    local places, here = {}, nil
    for _, file in ipairs(files) do
      for _, hunk in ipairs(file.change ~= 'deleted' and file.hunks or {}) do
        table.insert(places, { uri = file.uri, row = hunk.range.start.line })
        local passed = file.uri == uri and (step == 1 and hunk.range.start.line <= row or step == -1 and hunk.range.start.line < row)
        if passed then here = #places end
      end
    end
    if #places == 0 then return vim.notify('Pilotfish: there are no changes to review') end
    local index = step == 1 and (here or 0) + 1 or (here or #places)
    local place = places[(index - 1) % #places + 1]
    vim.cmd.edit(vim.fn.fnameescape(vim.uri_to_fname(place.uri)))
    vim.api.nvim_win_set_cursor(0, { math.min(place.row + 1, vim.api.nvim_buf_line_count(0)), 0 })
  end)
end

M.ACTIONS = {
  keep = function(whole_file) M.decide('keep', whole_file) end,
  undo = function(whole_file) M.decide('undo', whole_file) end,
  next = function() M.go(1) end,
  previous = function() M.go(-1) end,
}

return M
