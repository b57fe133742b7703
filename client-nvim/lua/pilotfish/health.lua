--- `:checkhealth pilotfish`
local M = {}

function M.check()
  local health = vim.health
  health.start('Neovim')
  if vim.fn.has('nvim-0.10') == 1 then
    health.ok(tostring(vim.version()))
  else
    health.error('Neovim 0.10 or later is needed')
  end
  if pcall(vim.treesitter.language.inspect, 'markdown') then
    health.ok('the Markdown parser is installed')
  else
    health.warn('there is no tree-sitter parser for Markdown: the chat has less colour')
  end

  health.start('Server')
  local command = require('pilotfish.config').options.cmd
  local program = command[1]
  if vim.fn.executable(program) == 0 then
    health.error(program .. ' is not found', {
      'Install it: pipx install . in the repository, or uv tool install .',
      "Or name it: require('pilotfish').setup { cmd = { '/path/to/pilotfish', 'serve' } }",
    })
  else
    health.ok('command: ' .. table.concat(command, ' '))
    local ok, done = pcall(function() return vim.system(vim.list_extend(vim.list_slice(command, 1, #command - 1), { '--version' }), { text = true }):wait(10000) end)
    local version = ok and done.code == 0 and vim.trim(done.stdout)
    if version then health.ok('version: ' .. version) else health.warn('its version is not known') end
  end
  local connection = require('pilotfish.connection')
  local client = connection.client()
  if not client then
    health.info('the server does not run; :Pilotfish starts it')
  else
    local status
    connection.request('status', nil, function(error, result) status = result or { error = error } end)
    vim.wait(3000, function() return status ~= nil end, 10)
    if not status then
      health.error('the server does not answer', { ':PilotfishRestart ends it' })
    elseif status.error then
      health.error(status.error.message, { status.error.remedy })
    else
      health.ok(string.format('state: %s, model: %s, mode: %s', status.state, status.model, status.mode))
      health.info('folder: ' .. client.config.root_dir .. (status.trusted and ' (trusted)' or ' (only read: :PilotfishTrust)'))
      if status.sandbox then health.info('sandbox: ' .. status.sandbox) end
      for _, problem in ipairs(status.problems or {}) do health.warn(problem) end
    end
  end

  health.start('Other clients')
  local second = vim.tbl_filter(function(other)
    return other.name == 'pilotfish' and (not client or other.id ~= client.id)
  end, vim.lsp.get_clients())
  if #second > 0 then
    health.warn('a second Pilotfish server runs from an LSP configuration', {
      "Remove vim.lsp.enable('pilotfish'): the plugin starts the server itself",
    })
  else
    health.ok('no second Pilotfish server')
  end
end

return M
