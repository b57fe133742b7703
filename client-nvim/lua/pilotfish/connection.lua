--- The server process: starts it as a language client of Neovim's, attaches buffers, sends requests.
local config = require('pilotfish.config')

local M = {}

local NEW = vim.fn.has('nvim-0.11') == 1
local group = vim.api.nvim_create_augroup('pilotfish_attach', {})

---@type integer?
local client_id
---@type (fun(client: vim.lsp.Client))[]
local waiting = {}
local registered = {} ---@type table<string, function>

--- What answers each method of the server. Modules register theirs when they are loaded.
---@param handlers table<string, function>
function M.register(handlers)
  for method, handler in pairs(handlers) do registered[method] = handler end
end

--- Called when the server process has ended: with nil, or with what went wrong.
---@type fun(problem: string?)
M.on_exit = function(_) end

---@return vim.lsp.Client?
function M.client()
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  return client and not client:is_stopped() and client or nil
end

--- The position encoding agreed with the server.
function M.encoding()
  local client = M.client()
  return client and client.offset_encoding or 'utf-16'
end

--- The workspace folder for the current buffer.
function M.root()
  local root = config.options.root
  if type(root) == 'function' then root = root(vim.api.nvim_get_current_buf()) end
  return root or vim.fs.root(0, '.git') or vim.fs.root(vim.fn.getcwd(), '.git') or vim.fn.getcwd()
end

--- Calls `callback(client)` once the server runs; starts it when it does not.
---@param trusted boolean
---@param callback fun(client: vim.lsp.Client)
function M.start(trusted, callback)
  local client = M.client()
  if client and client.initialized then return callback(client) end
  table.insert(waiting, callback)
  if client then return end
  local root = M.root()
  local settings = vim.empty_dict()
  for key, value in pairs(config.options.settings) do settings[key] = value end
  local options = {
    name = 'pilotfish',
    cmd = config.options.cmd,
    root_dir = root,
    workspace_folders = { { uri = vim.uri_from_fname(root), name = root } },
    settings = { pilotfish = config.options.settings },
    handlers = registered,
    init_options = {
      pilotfish = {
        protocolVersion = 1,
        client = {
          approvals = true,
          approvalEffects = true,
          ask = true,
          save = true,
          diagnostics = true,
          codeActions = true,
          symbols = true,
          diff = true,
          context = true,
          inlineEdit = true,
        },
        trusted = trusted,
        settings = settings,
      },
    },
    on_init = function(started)
      vim.schedule(function()
        M.attach_all(started.id)
        local callbacks = waiting
        waiting = {}
        for _, call in ipairs(callbacks) do call(started) end
      end)
    end,
    on_exit = vim.schedule_wrap(function(code, signal)
      client_id, waiting = nil, {}
      vim.api.nvim_clear_autocmds({ group = group })
      local problem = signal ~= 0 and ('signal ' .. signal) or code ~= 0 and ('code ' .. code) or nil
      M.on_exit(problem)
    end),
  }
  client_id = NEW and vim.lsp.start(options, { attach = false }) or vim.lsp.start_client(options)
  if not client_id then
    waiting = {}
    M.on_exit('it cannot be started')
  end
end

--- Whether a buffer is a document the agent may see: a loaded file, not a plugin's own buffer.
function M.is_document(buf)
  local name = vim.api.nvim_buf_get_name(buf)
  return vim.api.nvim_buf_is_loaded(buf) and vim.bo[buf].buftype == '' and name ~= '' and not name:find('^%a[%w+.-]+://')
end

--- The loaded buffer of a document, or nil.
---@param uri string
---@return integer?
function M.loaded(uri)
  local path = vim.uri_to_fname(uri)
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buf) and vim.api.nvim_buf_get_name(buf) == path then return buf end
  end
end

--- Attaches every document, now and when one is opened later.
---@param id integer
function M.attach_all(id)
  local function attach(buf)
    if M.is_document(buf) then vim.lsp.buf_attach_client(buf, id) end
  end
  vim.iter(vim.api.nvim_list_bufs()):each(attach)
  vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufFilePost', 'BufWritePost' }, {
    group = group,
    callback = function(event) attach(event.buf) end,
  })
end

--- Sends a request of ours; `callback(error, result)`. Returns what `Client.request` returns.
---@param method string without the prefix `pilotfish/`
---@param params table?
---@param callback? fun(error: table?, result: any)
function M.request(method, params, callback)
  callback = callback or function(error) if error then M.report(error) end end
  local client = M.client()
  if not client then return callback({ message = 'The Pilotfish server is not running. :Pilotfish starts it.' }) end
  if not params or vim.tbl_isempty(params) then params = vim.empty_dict() end -- an empty table would be sent as a list
  return M.ask(client, 'pilotfish/' .. method, params, callback)
end

--- Cancels a request; it is answered all the same.
---@param id integer
function M.cancel(id)
  local client = M.client()
  if not client then return end
  if NEW then client:notify('$/cancelRequest', { id = id }) else client.notify('$/cancelRequest', { id = id }) end
end

--- Sends a request to any client.
function M.ask(client, method, params, callback, buf)
  local function handler(error, result) callback(error, result) end
  if NEW then
    return client:request(method, params, handler, buf)
  end
  return client.request(method, params, handler, buf)
end

function M.notify(method, params)
  local client = M.client()
  if not client then return end
  if NEW then client:notify('pilotfish/' .. method, params) else client.notify('pilotfish/' .. method, params) end
end

--- Whether a client answers a method for a buffer.
function M.supports(client, method, buf)
  if NEW then return client:supports_method(method, buf) end
  return client.supports_method(method, { bufnr = buf })
end

--- Shows an error of the server's to the user.
---@param error table
function M.report(error)
  local remedy = type(error.data) == 'table' and error.data.remedy
  vim.notify('Pilotfish: ' .. error.message .. (remedy and (' ' .. remedy) or ''), vim.log.levels.ERROR)
end

--- Ends the server process.
function M.stop()
  local client = M.client()
  if not client then return end
  if NEW then client:stop() else client.stop() end
end

return M
