--- Completion in the prompt: `@` names files, buffers and symbols, `/` at the start names commands. Used as 'omnifunc'.
local connection = require('pilotfish.connection')

local M = {}

local WAIT_MS = 1000

local function request(method, params)
  local answer
  connection.request(method, params, function(_, result) answer = result or false end)
  vim.wait(WAIT_MS, function() return answer ~= nil end, 5)
  return answer or nil
end

--- See |complete-functions|.
function M.omnifunc(findstart, base)
  if findstart == 1 then
    local before = vim.api.nvim_get_current_line():sub(1, vim.api.nvim_win_get_cursor(0)[2])
    local start = before:find('@[^%s@]*$') or before:find('^/%S*$')
    return start and start - 1 or -3
  end
  if vim.startswith(base, '/') then
    local result = request('command/list')
    local words = {}
    for _, command in ipairs(result and result.commands or {}) do
      local word = '/' .. command.name
      if vim.startswith(word, base) then table.insert(words, { word = word, menu = command.description }) end
    end
    return words
  end
  local result = request('mention/complete', { query = base:sub(2), limit = 50 })
  return vim.tbl_map(function(mention)
    return { word = '@' .. mention.insert, abbr = mention.label, menu = mention.kind }
  end, result and result.mentions or {})
end

return M
