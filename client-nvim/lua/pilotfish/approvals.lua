--- Approvals: turns a waiting ApprovalRequest into a question with its whole preview, and sends the answer.
---
--- A question that is closed without an answer stays open on the wire; it can be shown again and answered on any surface.
local async = require('pilotfish.async')
local connection = require('pilotfish.connection')
local question = require('pilotfish.question')
local render = require('pilotfish.render')

local M = {}

local KEYS = { allow_once = 'a', allow_real = 'r', allow_session = 's', allow_always = 'A', reject = 'd', reject_always = 'D' }
local LABEL = 160 -- characters of a key's label
local CANCELLED = vim.lsp.protocol.ErrorCodes.RequestCancelled

--- approvalId → answers the request that is open on the wire
local open = {} ---@type table<string, fun(answer: table?)>
--- id of a question of the agent's → its turn, and what dismisses it
local asks = {} ---@type table<string, { turn: string, dismiss: fun() }>

--- Adds the diffs of files.
local function add_diffs(lines, files)
  for index, file in ipairs(files) do
    if index > 1 then table.insert(lines, '') end
    vim.list_extend(lines, render.diff(file.uri, M.text(file.before), M.text(file.after)))
  end
end

--- What a command did in a throwaway copy of the workspace: "Allow once" applies exactly that.
local function add_effects(lines, effects)
  vim.list_extend(lines, { '', 'It was tried out in a copy. "Allow once" applies exactly this:', '' })
  if effects.impact then vim.list_extend(lines, { effects.impact, '' }) end
  add_diffs(lines, effects.files)
  vim.list_extend(lines, { '', string.format('Its output (exit code %s):', effects.exitCode or '?') })
  vim.list_extend(lines, vim.split(effects.output, '\n'))
  if effects.note then table.insert(lines, effects.note) end
end

--- The preview, whole.
---@return string[] lines
---@return string? filetype
function M.preview_lines(request)
  local preview, lines = request.preview, {}
  if preview.kind == 'diff' then
    add_diffs(lines, preview.files)
    if preview.impact then table.insert(lines, 1, '# ' .. preview.impact) end
    table.insert(lines, 1, '# ' .. request.reason)
    return lines, 'diff'
  end
  table.insert(lines, request.reason)
  table.insert(lines, '')
  if preview.kind == 'command' then
    vim.list_extend(lines, vim.split(preview.command, '\n'))
    vim.list_extend(lines, { '', 'in ' .. preview.cwd })
    for _, part in ipairs(preview.parsed or {}) do table.insert(lines, '- ' .. part) end
    if preview.effects then
      add_effects(lines, preview.effects)
      return lines, 'diff'
    end
  else
    vim.list_extend(lines, vim.split(preview.text, '\n'))
  end
  return lines, nil
end

--- JSON's null is `vim.NIL` in some structures and nil in others.
function M.text(value)
  if value == vim.NIL then return nil end
  return value
end

local function label_of(option)
  local label = option.label
  if option.rule then label = label .. ': ' .. option.rule end
  if option.matches and #option.matches > 0 then label = label .. ' (covers ' .. table.concat(option.matches, ', ') end
  if option.excludes and #option.excludes > 0 and option.matches and #option.matches > 0 then
    label = label .. '; not ' .. table.concat(option.excludes, ', ')
  end
  return label .. (option.matches and #option.matches > 0 and ')' or '')
end

local function send(request, answer)
  local respond = open[request.approvalId]
  if respond then return respond(answer) end
  local params = vim.tbl_extend('force', { approvalId = request.approvalId }, answer)
  connection.request('approval/answer', params)
end

--- Lets the user change the arguments as JSON; writing the buffer allows the call with them.
local function amend(request, done)
  local buf = vim.api.nvim_create_buf(true, false)
  vim.api.nvim_buf_set_name(buf, 'pilotfish://arguments/' .. request.approvalId)
  vim.bo[buf].buftype = 'acwrite'
  vim.bo[buf].bufhidden = 'wipe'
  vim.bo[buf].filetype = 'json'
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(vim.json.encode(request.call.args), '\n'))
  vim.bo[buf].modified = false
  vim.cmd('botright split')
  vim.api.nvim_win_set_buf(0, buf)
  vim.notify('Change the arguments, then :w allows the call with them once. :q! leaves the question open.')
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    buffer = buf,
    callback = function()
      local text = table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n')
      local ok, args = pcall(vim.json.decode, text)
      if not ok or type(args) ~= 'table' then
        return vim.notify('These arguments are not a JSON object: ' .. tostring(args), vim.log.levels.ERROR)
      end
      vim.bo[buf].modified = false
      send(request, { optionId = 'allow_once', args = args })
      done()
      vim.schedule(function() vim.api.nvim_buf_delete(buf, { force = true }) end)
    end,
  })
end

--- Shows a request as a question. Every key stays on the screen: a label too long for that stands whole below the preview.
---@param request table
function M.show(request)
  local lines, filetype = M.preview_lines(request)
  local choices, reject = {}, nil
  for _, option in ipairs(request.options) do
    if option.id == 'reject' then reject = option end
    local key, label = KEYS[option.id] or tostring(#choices + 1), label_of(option)
    local short = render.one_line(label)
    if vim.fn.strchars(short) > LABEL then
      vim.list_extend(lines, { '', string.format('# %s  %s', key, vim.split(label, '\n')[1]) })
      vim.list_extend(lines, vim.list_slice(vim.split(label, '\n'), 2))
      short = vim.fn.strcharpart(short, 0, LABEL) .. ' … (whole below the preview)'
    end
    table.insert(choices, {
      key = key,
      label = short,
      run = function(done)
        send(request, { optionId = option.id })
        done()
      end,
    })
  end
  if reject then
    table.insert(choices, {
      key = 'f',
      label = reject.label .. ' and say why',
      run = function(done)
        vim.ui.input({ prompt = 'Tell the agent why: ' }, function(feedback)
          if not feedback then return end
          send(request, { optionId = 'reject', feedback = feedback ~= '' and feedback or nil })
          done()
        end)
      end,
    })
  end
  if request.amendable then
    table.insert(choices, { key = 'e', label = 'Change the arguments first', run = function(done) amend(request, done) end })
  end
  question.add({
    id = request.approvalId,
    title = request.call.title,
    lines = lines,
    filetype = filetype,
    choices = choices,
  })
end

--- The user's own answer to a question of the agent's.
local function ask(params)
  return async.await(function(resolve)
    local id = 'ask:' .. params.turnId .. ':' .. vim.uv.hrtime()
    asks[id] = { turn = params.turnId, dismiss = function() resolve({ dismissed = true }) end }
    local function answered(answer, done)
      asks[id] = nil
      resolve({ answer = answer })
      done()
    end
    local choices = {}
    for index, option in ipairs(params.options or {}) do
      if index > 9 then break end
      table.insert(choices, { key = tostring(index), label = option, run = function(done) answered(option, done) end })
    end
    table.insert(choices, {
      key = 'i',
      label = 'Write an answer',
      run = function(done)
        vim.ui.input({ prompt = 'Answer: ' }, function(text)
          if text and text ~= '' then answered(text, done) end
        end)
      end,
    })
    table.insert(choices, {
      key = 'x',
      label = 'No answer',
      run = function(done)
        asks[id].dismiss()
        asks[id] = nil
        done()
      end,
    })
    local lines = vim.split(params.question, '\n')
    for index = 10, #(params.options or {}) do table.insert(lines, '- ' .. params.options[index]) end
    question.add({ id = id, title = 'Pilotfish asks', lines = lines, choices = choices })
  end)
end

connection.register({
  ['pilotfish/approval/request'] = function(_, request)
    local answer = async.await(function(resolve)
      open[request.approvalId] = function(value) resolve(value or false) end
      M.show(request)
    end)
    open[request.approvalId] = nil
    if answer then return answer end
    return nil, vim.lsp.rpc_response_error(CANCELLED, 'The question is over')
  end,
  ['pilotfish/approval/resolved'] = function(_, params)
    local respond = open[params.approvalId]
    if respond then respond(nil) end
    question.close(params.approvalId)
  end,
  ['pilotfish/user/ask'] = function(_, params) return ask(params) end,
})

--- Ends the questions of a turn that has ended.
---@param turn_id string
function M.turn_ended(turn_id)
  for id, waiting in pairs(asks) do
    if waiting.turn == turn_id then
      asks[id] = nil
      waiting.dismiss()
      question.close(id)
    end
  end
end

--- Forgets what was open: the server is gone.
function M.clear()
  open, asks = {}, {}
  question.clear()
end

return M
