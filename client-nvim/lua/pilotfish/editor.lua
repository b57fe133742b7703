--- Answers what the server asks of the editor: documents held, edited and saved, and what Neovim's other language
--- clients know. Decides nothing; every answer is in the shape PROTOCOL.md gives.
local async = require('pilotfish.async')
local config = require('pilotfish.config')
local connection = require('pilotfish.connection')
local positions = require('pilotfish.positions')
local render = require('pilotfish.render')

local M = {}

local ANSWER_MS = 5000 -- a language server that says nothing costs its part of the answer
local ATTACH_MS = 1500 -- until the language servers of a document that was just loaded are there
local DIAGNOSTICS_MS = 2000
local QUIET_MS = 250 -- diagnostics that do not change for this long are complete
local RESOLVED_ACTIONS = 20

-- Documents ---------------------------------------------------------------------------------------------------------

--- Loads a document without a window and attaches it. Raises an error with the reason when that fails.
---@param uri string
local function hold(uri)
  local path = vim.uri_to_fname(uri)
  local stat = vim.uv.fs_stat(path)
  if not stat or stat.type ~= 'file' then error('there is no such file', 0) end
  local buf = vim.fn.bufadd(path)
  if not vim.api.nvim_buf_is_loaded(buf) then
    local other_vim
    local swap = vim.api.nvim_create_autocmd('SwapExists', {
      callback = function()
        other_vim = true
        vim.v.swapchoice = 'o' -- nothing is asked; an edit is refused below
      end,
    })
    local ok, reason = pcall(vim.fn.bufload, buf)
    vim.api.nvim_del_autocmd(swap)
    if not ok then error(reason, 0) end
    if other_vim then
      vim.api.nvim_buf_delete(buf, { force = true })
      error('it has a swap file: another Vim may be editing it', 0)
    end
  end
  local client = connection.client()
  if client then vim.lsp.buf_attach_client(buf, client.id) end
  return buf
end

function M.open(params)
  local opened, failed = {}, {}
  for _, uri in ipairs(params.uris) do
    local ok, buf = pcall(hold, uri)
    if ok then
      table.insert(opened, { uri = uri, version = vim.lsp.util.buf_versions[buf] or 0, dirty = vim.bo[buf].modified })
    else
      table.insert(failed, { uri = uri, reason = tostring(buf) })
    end
  end
  return { opened = opened, failed = failed }
end

--- The bytes a buffer would be written as, or nil for encodings this does not compute.
local function bytes_of(buf)
  local options = vim.bo[buf]
  if options.bomb or (options.fileencoding ~= '' and options.fileencoding ~= 'utf-8') then return nil end
  local ending = ({ unix = '\n', dos = '\r\n', mac = '\r' })[options.fileformat]
  local lines = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
  if #lines == 1 and lines[1] == '' and not options.endofline then return '' end
  return table.concat(lines, ending) .. ((options.endofline or options.fixendofline) and ending or '')
end

local function read_bytes(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local bytes = file:read('*a')
  file:close()
  return bytes
end

--- Saves one document. Raises an error with the reason when text and disk are not equal after it.
local function save(uri)
  local buf = connection.loaded(uri)
  if not buf then return end -- the file is the document
  -- A write over a file that changed on disk would stop at Neovim's own question.
  local conflict
  local watch = vim.api.nvim_create_autocmd('FileChangedShell', {
    buffer = buf,
    callback = function()
      local reason = vim.v.fcs_reason
      conflict = conflict or reason == 'conflict'
      vim.v.fcs_choice = reason == 'changed' and 'reload' or ''
    end,
  })
  local checked, problem = pcall(vim.cmd.checktime, buf)
  vim.api.nvim_del_autocmd(watch)
  if not checked then error(problem, 0) end
  if conflict then
    vim.notify('Pilotfish: ' .. render.path(uri) .. ' changed on disk and in its buffer; it is not saved', vim.log.levels.WARN)
    error('the file changed on disk as well as in the editor', 0)
  end
  if vim.bo[buf].modified then
    vim.api.nvim_buf_call(buf, function() vim.cmd('silent update') end)
  end
  if vim.bo[buf].modified then error('the editor did not save it', 0) end
  local expected = bytes_of(buf)
  if expected and expected ~= read_bytes(vim.uri_to_fname(uri)) then error('text and file are not equal', 0) end
end

function M.save(params)
  local saved, failed = {}, {}
  for _, uri in ipairs(params.uris) do
    local ok, reason = pcall(save, uri)
    if ok then
      table.insert(saved, uri)
    else
      table.insert(failed, { uri = uri, reason = tostring(reason) })
    end
  end
  return { saved = saved, failed = failed }
end

--- Edits exactly the versions the server saw, or nothing: Neovim's own handler says "applied" for a stale edit too.
function M.apply(params)
  local changes = params.edit.documentChanges or {}
  local client = connection.client()
  if not client or #changes == 0 then return { applied = false, failureReason = 'there are no documentChanges' } end
  local targets = {}
  for _, change in ipairs(changes) do
    local document = change.textDocument
    local buf = document and connection.loaded(document.uri)
    local now = buf and vim.lsp.util.buf_versions[buf]
    if not buf or (document.version ~= vim.NIL and now ~= document.version) then
      connection.request('status', nil, function() end) -- a request flushes typed text that is not sent yet
      return { applied = false, failureReason = buf and 'the document moved on' or 'the document is not open' }
    end
    if not vim.bo[buf].modifiable then return { applied = false, failureReason = 'the buffer is not modifiable' } end
    -- Without annotations, which Neovim 0.12 insists on having explained, and then reports in a message for every edit.
    local edits = vim.tbl_map(function(edit) return { range = edit.range, newText = edit.newText } end, change.edits)
    table.insert(targets, { buf = buf, edits = edits })
  end
  for _, target in ipairs(targets) do
    local buf = target.buf
    local levels = vim.bo[buf].undolevels
    vim.bo[buf].undolevels = levels -- closes the undo step, so that the agent's edit is one of its own
    vim.lsp.util.apply_text_edits(target.edits, buf, client.offset_encoding)
    vim.bo[buf].undolevels = levels
    vim.bo[buf].buflisted = true
  end
  return { applied = true }
end

function M.diff(params)
  local lines = render.diff(params.uri, params.before, params.after)
  local name = 'pilotfish://diff/' .. render.path(params.uri)
  local buf = vim.fn.bufnr('^' .. vim.fn.escape(name, '\\[]*?') .. '$')
  if buf < 0 then
    buf = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buf, name)
    vim.bo[buf].filetype = 'diff'
  end
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modifiable = false
  if #vim.fn.win_findbuf(buf) == 0 then
    local win = vim.api.nvim_open_win(buf, false, { split = 'below', win = 0, height = math.min(#lines, 20) })
    vim.wo[win].winbar = (params.title:gsub('%%', '%%%%'))
    vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buf })
  end
  return vim.empty_dict()
end

-- Other language servers ----------------------------------------------------------------------------------------------

--- Neovim's other clients that answer a method, for a buffer or anywhere.
local function others(method, buf)
  local ours = connection.client()
  return vim.tbl_filter(function(client)
    return (not ours or client.id ~= ours.id) and client.name ~= 'pilotfish' and connection.supports(client, method, buf)
  end, vim.lsp.get_clients({ bufnr = buf }))
end

--- The buffer of a document, loaded when it is not; then its language servers are given a moment to attach.
local function document(uri, method)
  local buf = connection.loaded(uri)
  if buf then return buf end
  local ok, held = pcall(hold, uri)
  if not ok then return nil end
  async.wait_for(ATTACH_MS, function() return #others(method, held) > 0 end)
  return held
end

--- Asks clients and returns their answers in our encoding: `{ client, result }` each, without errors and empty answers.
---@param clients table[]
---@param params_for fun(client: table): table
local function ask(clients, method, uri, params_for, buf)
  local encoding = connection.encoding()
  local answers, left = {}, #clients
  if left == 0 then return answers end
  return async.await(function(resolve)
    local timer = vim.defer_fn(function() resolve(answers) end, ANSWER_MS)
    for _, client in ipairs(clients) do
      connection.ask(client, method, params_for(client), function(_, result)
        left = left - 1
        if result and result ~= vim.NIL then
          result = positions.convert(result, uri, client.offset_encoding, encoding)
          table.insert(answers, { client = client, result = result })
        end
        if left == 0 then
          if not timer:is_closing() then timer:close() end
          resolve(answers)
        end
      end, buf)
    end
  end)
end

--- Parameters of a position request in the encoding of each client.
local function place_params(params, more)
  return function(client)
    local position = positions.convert(params.position, params.uri, connection.encoding(), client.offset_encoding)
    return vim.tbl_extend('force', { textDocument = { uri = params.uri }, position = position }, more or {})
  end
end

--- Locations of any of LSP's shapes as Location, each once.
local function locations(answers)
  local found, seen = {}, {}
  for _, answer in ipairs(answers) do
    local list = vim.islist(answer.result) and answer.result or { answer.result }
    for _, place in ipairs(list) do
      local location = { uri = place.uri or place.targetUri, range = place.range or place.targetSelectionRange }
      local key = vim.json.encode({ location.uri, location.range.start.line, location.range.start.character })
      if not seen[key] then
        seen[key] = true
        table.insert(found, location)
      end
    end
  end
  return { locations = found }
end

function M.definition(params)
  local method = 'textDocument/definition'
  local buf = document(params.uri, method)
  if not buf then return { locations = {} } end
  return locations(ask(others(method, buf), method, params.uri, place_params(params), buf))
end

function M.references(params)
  local method = 'textDocument/references'
  local buf = document(params.uri, method)
  if not buf then return { locations = {} } end
  local context = { context = { includeDeclaration = params.includeDeclaration ~= false } }
  return locations(ask(others(method, buf), method, params.uri, place_params(params, context), buf))
end

function M.symbols(params)
  local symbols, answers = {}, {}
  if params.uri then
    local method = 'textDocument/documentSymbol'
    local buf = document(params.uri, method)
    if buf then
      answers = ask(others(method, buf), method, params.uri, function() return { textDocument = { uri = params.uri } } end, buf)
    end
  else
    local method = 'workspace/symbol'
    answers = ask(others(method), method, nil, function() return { query = params.query or '' } end)
  end
  for _, answer in ipairs(answers) do vim.list_extend(symbols, answer.result) end
  return { symbols = symbols }
end

function M.rename(params)
  local method = 'textDocument/rename'
  local buf = document(params.uri, method)
  if not buf then return vim.empty_dict() end
  local clients = vim.list_slice(others(method, buf), 1, 1)
  local answer = ask(clients, method, params.uri, place_params(params, { newName = params.newName }), buf)[1]
  return answer and { edit = answer.result } or vim.empty_dict()
end

--- The diagnostics in the lines of a range, as their language servers sent them.
local function diagnostics_of(buf, range)
  local found = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(buf)) do
    local original = diagnostic.user_data and diagnostic.user_data.lsp
    local last = diagnostic.end_lnum or diagnostic.lnum
    if original and last >= range.start.line and diagnostic.lnum <= range['end'].line then
      table.insert(found, original)
    end
  end
  return found
end

function M.code_actions(params)
  local method = 'textDocument/codeAction'
  local buf = document(params.uri, method)
  if not buf then return { actions = {} } end
  local answers = ask(others(method, buf), method, params.uri, function(client)
    return {
      textDocument = { uri = params.uri },
      range = positions.convert(params.range, params.uri, connection.encoding(), client.offset_encoding),
      context = { diagnostics = diagnostics_of(buf, params.range), only = params.only },
    }
  end, buf)
  local actions = {}
  for _, answer in ipairs(answers) do
    local resolves = connection.supports(answer.client, 'codeAction/resolve', buf)
    for index, action in ipairs(answer.result) do
      if resolves and not action.edit and not action.disabled and index <= RESOLVED_ACTIONS and type(action.command) ~= 'string' then
        local theirs = positions.convert(action, params.uri, connection.encoding(), answer.client.offset_encoding)
        local resolved = ask({ answer.client }, 'codeAction/resolve', params.uri, function() return theirs end, buf)[1]
        action = resolved and resolved.result or action
      end
      -- A bare Command is an action whose command has no edit.
      if type(action.command) == 'string' then action = { title = action.title, command = action } end
      table.insert(actions, action)
    end
  end
  return { actions = actions }
end

--- Neovim's diagnostics of a buffer in LSP's shape.
local function document_diagnostics(buf, uri)
  local encoding = connection.encoding()
  local function position(row, column)
    local line = vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
    return { line = row, character = positions.from_byte(line, column, encoding) }
  end
  local found = vim.tbl_map(function(diagnostic)
    return {
      range = {
        start = position(diagnostic.lnum, diagnostic.col),
        ['end'] = position(diagnostic.end_lnum or diagnostic.lnum, diagnostic.end_col or diagnostic.col),
      },
      message = diagnostic.message,
      severity = diagnostic.severity,
      code = diagnostic.code,
      source = diagnostic.source,
    }
  end, vim.diagnostic.get(buf))
  return { uri = uri, version = vim.lsp.util.buf_versions[buf], diagnostics = found }
end

--- Waits until the other language servers have reported on a version and gone quiet.
local function settle(buf, version, timeout)
  if #others('textDocument/publishDiagnostics', buf) == 0 and #vim.diagnostic.get(buf) == 0 then
    if not async.wait_for(math.min(ATTACH_MS, timeout), function()
      return #others('textDocument/publishDiagnostics', buf) > 0
    end) then return end
  end
  async.await(function(resolve)
    local quiet, limit, watch
    local function done()
      for _, timer in pairs({ quiet, limit }) do
        if not timer:is_closing() then timer:close() end
      end
      pcall(vim.api.nvim_del_autocmd, watch)
      resolve(true)
    end
    limit = vim.defer_fn(done, timeout)
    watch = vim.api.nvim_create_autocmd('DiagnosticChanged', {
      buffer = buf,
      callback = function()
        if (vim.lsp.util.buf_versions[buf] or 0) < version then return end
        if quiet and not quiet:is_closing() then quiet:close() end
        quiet = vim.defer_fn(done, QUIET_MS)
      end,
    })
  end)
end

function M.diagnostics(params)
  if params.uri then
    local buf = connection.loaded(params.uri)
    if not buf then return { documents = {} } end
    if params.waitForVersion then settle(buf, params.waitForVersion, params.timeoutMs or DIAGNOSTICS_MS) end
    return { documents = { document_diagnostics(buf, params.uri) } }
  end
  local documents = {}
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if connection.is_document(buf) and #vim.diagnostic.get(buf) > 0 then
      table.insert(documents, document_diagnostics(buf, vim.uri_from_bufnr(buf)))
    end
  end
  return { documents = documents }
end

-- What the user looks at ----------------------------------------------------------------------------------------------

--- The window of the document that the user works in: this one, the one before it, or another that shows a document.
local function looked_at()
  local windows = { vim.api.nvim_get_current_win(), vim.fn.win_getid(vim.fn.winnr('#')) }
  vim.list_extend(windows, vim.api.nvim_tabpage_list_wins(0))
  return vim.iter(windows):find(function(win)
    return win ~= 0 and connection.is_document(vim.api.nvim_win_get_buf(win))
  end)
end

--- The fields of a `context` content block.
function M.context()
  if not config.options.context then return { git = false } end
  local win = looked_at()
  if not win then return vim.empty_dict() end
  local buf = vim.api.nvim_win_get_buf(win)
  local uri, encoding = vim.uri_from_bufnr(buf), connection.encoding()
  local row, column = unpack(vim.api.nvim_win_get_cursor(win))
  local first, last = vim.fn.line('w0', win), vim.fn.line('w$', win)
  return {
    active = {
      uri = uri,
      version = vim.lsp.util.buf_versions[buf],
      cursor = positions.range(buf, row, row, encoding, { column, column }).start,
      visible = positions.range(buf, first, math.max(first, last), encoding),
      diagnostics = document_diagnostics(buf, uri).diagnostics,
    },
  }
end


local handlers = {
  ['workspace/applyEdit'] = M.apply,
  ['pilotfish/editor/open'] = M.open,
  ['pilotfish/editor/save'] = M.save,
  ['pilotfish/editor/context'] = M.context,
  ['pilotfish/editor/diff'] = M.diff,
  ['pilotfish/editor/diagnostics'] = M.diagnostics,
  ['pilotfish/editor/definition'] = M.definition,
  ['pilotfish/editor/references'] = M.references,
  ['pilotfish/editor/symbols'] = M.symbols,
  ['pilotfish/editor/rename'] = M.rename,
  ['pilotfish/editor/codeActions'] = M.code_actions,
}
for method, answer in pairs(handlers) do
  connection.register({ [method] = function(_, params) return answer(params) end })
end

return M
