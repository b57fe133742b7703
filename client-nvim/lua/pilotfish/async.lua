--- Waiting inside a coroutine. Neovim runs each handler of a server request in a coroutine of its own and sends the
--- answer when the handler returns, so a handler may wait without blocking the editor.
local M = {}

--- Calls `start(resolve)` and returns what `resolve` is called with, now or later. Only the first call counts.
---@param start fun(resolve: fun(value: any))
function M.await(start)
  local thread = assert(coroutine.running(), 'await needs a coroutine')
  local resolved, waiting, value = false, false, nil
  start(function(result)
    if resolved then return end
    resolved, value = true, result
    if waiting then assert(coroutine.resume(thread)) end
  end)
  if not resolved then
    waiting = true
    coroutine.yield()
  end
  return value
end

--- Waits until `done()` is true, looking every 25 ms, at most `timeout` ms. Returns whether it became true.
---@param timeout integer
---@param done fun(): boolean
function M.wait_for(timeout, done)
  if done() then return true end
  return M.await(function(resolve)
    local timer, passed = assert(vim.uv.new_timer()), 0
    timer:start(25, 25, vim.schedule_wrap(function()
      if timer:is_closing() then return end
      passed = passed + 25
      local reached = done()
      if reached or passed >= timeout then
        timer:close()
        resolve(reached)
      end
    end))
  end)
end

return M
