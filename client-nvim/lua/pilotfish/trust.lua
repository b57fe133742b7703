--- Workspace trust. Neovim has none, so the user is asked once for each folder; the answer is kept in Neovim's state
--- directory, never in the folder.
local config = require('pilotfish.config')
local question = require('pilotfish.question')

local M = {}

local function file() return vim.fs.joinpath(vim.fn.stdpath('state'), 'pilotfish', 'trust.json') end

local function read()
  local ok, folders = pcall(function() return vim.json.decode(table.concat(vim.fn.readfile(file()), '\n')) end)
  return ok and folders or {}
end

--- Whether a folder is trusted; nil if nobody has said.
---@param folder string
---@return boolean?
function M.of(folder)
  local trusted = config.options.trusted
  if type(trusted) == 'function' then return trusted(folder) == true end
  if trusted ~= nil then return trusted end
  return read()[folder]
end

---@param folder string
---@param trusted boolean
function M.set(folder, trusted)
  local folders = read()
  folders[folder] = trusted
  vim.fn.mkdir(vim.fs.dirname(file()), 'p')
  vim.fn.writefile({ vim.json.encode(folders) }, file())
end

--- Asks the user; `callback(trusted)`.
---@param folder string
---@param callback fun(trusted: boolean)
function M.ask(folder, callback)
  local function choice(key, label, trusted)
    return {
      key = key,
      label = label,
      run = function(done)
        M.set(folder, trusted)
        done()
        callback(trusted)
      end,
    }
  end
  question.add({
    id = 'trust:' .. folder,
    focus = true,
    title = 'Do you trust this folder?',
    lines = {
      folder,
      '',
      'In a trusted folder Pilotfish changes files and runs commands, after it has asked you,',
      'and follows the instruction files it finds there. In others it only reads.',
    },
    choices = { choice('t', 'Trust this folder', true), choice('r', 'Read only', false) },
  })
end

return M
