-- Defines the user commands. Everything else is loaded on first use.
if vim.g.loaded_pilotfish then return end
vim.g.loaded_pilotfish = true

if vim.fn.has('nvim-0.10') == 0 then
  vim.notify('pilotfish needs Neovim 0.10 or later', vim.log.levels.ERROR)
  return
end

require('pilotfish.commands').create()
