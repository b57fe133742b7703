-- Lets a test run Lua in this Neovim: one JSON request a line on a socket, one JSON answer a line.
local server = assert(vim.uv.new_pipe(false))
assert(server:bind(vim.env.PILOTFISH_TEST_SOCKET))
server:listen(8, function(failed)
  assert(not failed, failed)
  local peer, buffered = assert(vim.uv.new_pipe(false)), ''
  server:accept(peer)
  peer:read_start(function(_, chunk)
    if not chunk then return peer:close() end
    buffered = buffered .. chunk
    for line in buffered:gmatch('([^\n]*)\n') do
      vim.schedule(function()
        local ok, result = pcall(function()
          local request = vim.json.decode(line, { luanil = { object = true, array = true } })
          return assert(loadstring(request.code))(unpack(request.args))
        end)
        local answer = ok and { result = result == nil and vim.NIL or result } or { error = tostring(result) }
        peer:write(vim.json.encode(answer) .. '\n')
      end)
    end
    buffered = buffered:match('[^\n]*$')
  end)
end)
