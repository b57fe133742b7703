-- Neovim as a plain client, with nothing but an LSP configuration: a prompt on a selection, progress, approval, the edit
-- with undo, a cancel, the answer. Prints what it saw as JSON. The buffer, its edits and its undo are Neovim's own.
local seen = { messages = {}, asked = {}, progress = {}, errors = {} }
local answers = { 'Trust this folder', 'Allow once' }
local command = vim.split(vim.env.PILOTFISH_COMMAND, ' ')

local function wait(found, what)
  if not vim.wait(60000, found, 10) then table.insert(seen.errors, 'waited in vain for ' .. what) end
end

vim.cmd('edit ' .. vim.env.PILOTFISH_FILE)
vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'def greet():', '    return "Helo wörld 😀"  # not saved' })
vim.o.undolevels = vim.o.undolevels -- the user's typing is a step of its own

-- What the README says for 0.11 needs 0.11; older ones start the same client by hand.
local client_id = vim.lsp.start_client {
  cmd = command,
  root_dir = vim.env.PILOTFISH_FOLDER,
  handlers = {
    ['window/showMessage'] = function(_, params) table.insert(seen.messages, params.message) end,
    ['window/showMessageRequest'] = function(_, params)
      table.insert(seen.asked, params.message)
      local wanted = table.remove(answers, 1)
      for _, action in ipairs(params.actions) do
        if vim.startswith(action.title, wanted) then return action end
      end
      return vim.NIL
    end,
    ['$/progress'] = function(_, params) table.insert(seen.progress, params) end,
  },
}
vim.lsp.buf_attach_client(0, client_id)
local client = vim.lsp.get_client_by_id(client_id)
wait(function() return client.initialized end, 'initialize')

local function run(name, argument)
  local answer
  client.request('workspace/executeCommand', { command = name, arguments = { argument } }, function(err, result)
    answer = { err = err, result = result }
  end)
  wait(function() return answer end, name)
  if answer and answer.err then table.insert(seen.errors, vim.inspect(answer.err)) end
  return answer and answer.result
end

local uri = vim.uri_from_bufnr(0)
local selection = { start = { line = 1, character = 0 }, ['end'] = { line = 1, character = 10 } }
run('pilotfish.prompt', { prompt = '#edit# please', uri = uri, range = selection })
wait(function() return #seen.messages >= 1 end, 'the answer')
seen.edited = vim.api.nvim_buf_get_lines(0, 0, -1, false)
vim.cmd('undo')
seen.undone = vim.api.nvim_buf_get_lines(0, 0, -1, false)

run('pilotfish.prompt', { prompt = '#slow# please', new = true })
wait(function()
  local last = seen.progress[#seen.progress]
  return last and last.value.kind == 'report' and last.value.message == 'thinking' and #seen.messages == 1
end, 'the second turn')
client.notify('window/workDoneProgress/cancel', { token = seen.progress[#seen.progress].token })
wait(function() return #seen.messages >= 2 end, 'the end of the second turn')

dofile(vim.env.PILOTFISH_README) -- the README's own way to send a prompt
wait(function() return #seen.messages >= 3 end, 'the answer to the prompt of the README')

local actions
client.request('textDocument/codeAction', {
  textDocument = { uri = uri }, range = selection, context = { diagnostics = {} },
}, function(_, result) actions = result end)
wait(function() return actions end, 'code actions')
seen.actions = vim.tbl_map(function(action) return action.title end, actions or {})
seen.encoding = client.offset_encoding
seen.progress = vim.tbl_map(function(params) return params.value.kind end, seen.progress)

vim.lsp.stop_client(client_id)
vim.wait(5000, function() return vim.lsp.get_client_by_id(client_id) == nil end, 10)
local file = io.open(vim.env.PILOTFISH_RESULT, 'w')
file:write(vim.json.encode(seen))
file:close()
vim.cmd('qa!')
