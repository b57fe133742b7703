--- Items of a transcript as Markdown lines. Pure: the same item gives the same lines.
local M = {}

local SHOWN_OUTPUT = 12 -- lines of a command's output in the transcript; the details window has all of them
local SHOWN_DIFF = 40

M.STATUS = {
  pending = '…',
  awaiting_approval = '?',
  in_progress = '▸',
  completed = '✓',
  failed = '✗',
  denied = '⊘',
  cancelled = '■',
}

--- A path to show for a URI: relative to the working directory where it is inside.
function M.path(uri)
  if not vim.startswith(uri, 'file:') then return uri end
  return vim.fn.fnamemodify(vim.uri_to_fname(uri), ':.')
end

local function split(text) return vim.split(text, '\r?\n') end

--- A text on one line.
function M.one_line(text) return (text:gsub('%s+', ' ')) end

--- A fenced block whose fence is longer than any inside.
function M.fence(text, language)
  local longest = 2
  for ticks in text:gmatch('`+') do longest = math.max(longest, #ticks) end
  local fence = string.rep('`', longest + 1)
  local lines = split((text:gsub('\n$', '')))
  table.insert(lines, 1, fence .. (language or ''))
  table.insert(lines, fence)
  return lines
end

--- Text of content blocks, as the user would read it.
function M.prompt_text(blocks)
  local parts = {}
  for _, block in ipairs(blocks) do
    if block.type == 'text' then
      table.insert(parts, block.text)
    elseif block.type == 'resource' then
      local range = block.range
      local where = range and string.format(':%d-%d', range.start.line + 1, range['end'].line + 1) or ''
      table.insert(parts, '@' .. M.path(block.uri) .. where)
    elseif block.type == 'diagnostic' then
      table.insert(parts, string.format('problem in %s: %s', M.path(block.uri), block.diagnostic.message))
    elseif block.type == 'image' then
      table.insert(parts, '(image)')
    end
  end
  return table.concat(parts, '\n')
end

--- The first or last `limit` lines of a text, with a line that says how many are left out.
local function shortened(text, limit, from_end)
  local lines = split((text:gsub('\n$', '')))
  if #lines <= limit then return table.concat(lines, '\n'), nil end
  local left_out = #lines - limit
  local part = from_end and vim.list_slice(lines, left_out + 1) or vim.list_slice(lines, 1, limit)
  return table.concat(part, '\n'), string.format('*%d more lines: `<CR>` here shows all*', left_out)
end

local function duration(ms)
  if not ms then return '' end
  return ms < 1000 and string.format(' · %d ms', ms) or string.format(' · %.1f s', ms / 1000)
end

local function tokens(count)
  return count < 1000 and tostring(count) or string.format('%.1fk', count / 1000)
end
M.tokens = tokens

local render = {}

function render.prompt(item)
  local lines = { '## You', '' }
  return vim.list_extend(lines, split(M.prompt_text(item.prompt)))
end

function render.message(item) return split(item.text) end

function render.thought(item) return split('> ' .. M.quoted(item.text)) end

--- The text with each further line quoted.
function M.quoted(text) return (text:gsub('\n', '\n> ')) end

function render.tool_call(item)
  local call = item.call
  local lines = { string.format('**%s %s**%s', M.STATUS[call.status] or '?', M.one_line(call.title), duration(call.durationMs)) }
  local approval = call.approval
  if call.status == 'denied' and approval then
    table.insert(lines, '> ' .. M.quoted('denied: ' .. (approval.feedback or approval.reason)))
  end
  if call.error then vim.list_extend(lines, split('> ' .. M.quoted(call.error))) end
  local more
  if call.diff and call.diff ~= '' then
    local text
    text, more = shortened(call.diff, SHOWN_DIFF, false)
    vim.list_extend(lines, M.fence(text, 'diff'))
  elseif call.category == 'execute' then
    local output = call.result and call.result.text or item.progress
    if output and output ~= '' then
      local text
      text, more = shortened(output, SHOWN_OUTPUT, true)
      vim.list_extend(lines, M.fence(text))
    end
  elseif call.status == 'in_progress' and item.progress then
    vim.list_extend(lines, M.fence((shortened(item.progress, SHOWN_OUTPUT, true))))
  end
  if more then table.insert(lines, more) end
  return lines
end

function render.plan(item)
  local mark = { completed = 'x', in_progress = '-', pending = ' ' }
  return vim.tbl_map(function(entry) return string.format('- [%s] %s', mark[entry.status] or ' ', entry.content) end, item.entries)
end

function render.file_change(item)
  return { string.format('*%s %s +%d −%d*', item.change, M.path(item.uri), item.added, item.removed) }
end

function render.notice(item)
  local text = string.format('**%s**: %s', item.level, item.message)
  if item.remedy then text = text .. '\n' .. item.remedy end
  return split('> ' .. M.quoted(text))
end

function render.claim(item)
  if item.verdict == 'supported' then return {} end
  return split('> ' .. M.quoted(string.format('**not verified**: %s (%s)', item.text, item.evidence or '')))
end

function render.compaction(item)
  return { string.format('*earlier messages are summarised: %s → %s tokens*', tokens(item.before), tokens(item.after)) }
end

local ENDS = {
  max_iterations = 'Stopped: the limit of steps is reached. Send "continue" to go on.',
  max_tokens = 'Stopped: the answer reached the limit of tokens.',
  budget = 'Stopped: the budget of the turn is used up.',
  refusal = 'The model refused.',
  cancelled = 'Stopped.',
}

function render.turn_end(item)
  local usage = item.usage
  local lines = {}
  if item.error then
    vim.list_extend(lines, split('> ' .. M.quoted('**Failed**: ' .. item.error.message .. '\n' .. item.error.remedy)))
  elseif ENDS[item.stopReason] then
    table.insert(lines, '**' .. ENDS[item.stopReason] .. '**')
  end
  local receipt = item.receipt
  for _, process in ipairs(receipt and receipt.killedProcesses or {}) do
    table.insert(lines, '- killed: `' .. process.command:gsub('\n', ' ') .. '`')
  end
  for _, uri in ipairs(receipt and receipt.changedFiles or {}) do
    table.insert(lines, '- already changed: ' .. M.path(uri))
  end
  if item.undone then table.insert(lines, '*The files of this turn were put back.*') end
  local sum = string.format('*%s tokens in, %s out*', tokens(usage.inputTokens), tokens(usage.outputTokens))
  vim.list_extend(lines, { sum, '', '---' })
  return lines
end

--- The lines of an item, with an empty line after them. A line break inside a text of the server's starts a new one.
---@return string[]
function M.item(item)
  local lines = {}
  for _, line in ipairs(render[item.kind] and render[item.kind](item) or {}) do vim.list_extend(lines, split(line)) end
  if #lines > 0 then table.insert(lines, '') end
  return lines
end

--- A unified diff of a file before and after; `nil` stands for no file.
function M.diff(uri, before, after)
  local path = M.path(uri)
  local names = { '--- ' .. (before and path or '/dev/null'), '+++ ' .. (after and path or '/dev/null') }
  local body = vim.diff(before or '', after or '', { ctxlen = 3, algorithm = 'histogram' })
  return vim.list_extend(names, vim.split((body:gsub('\n$', '')), '\n'))
end

--- Everything about a call, for the details window.
function M.call_details(item)
  local call = item.call
  local lines = { '# ' .. M.one_line(call.title), '', string.format('`%s` · %s%s', call.name, call.status, duration(call.durationMs)), '' }
  local approval = call.approval
  if approval then
    local by = string.format('%s by %s: %s', approval.decision == 'allow' and 'allowed' or 'denied', approval.by, approval.reason)
    vim.list_extend(lines, { by, '' })
  end
  vim.list_extend(lines, { '## Arguments', '' })
  vim.list_extend(lines, M.fence(call.rawArgs or M.arguments(call.args)))
  if call.diff then
    vim.list_extend(lines, { '', '## Changes', '' })
    vim.list_extend(lines, M.fence(call.diff, 'diff'))
  end
  if call.error then vim.list_extend(lines, { '', '## Error', '', unpack(split(call.error)) }) end
  local output = call.result and call.result.text or item.progress
  if output then
    vim.list_extend(lines, { '', '## Result', '' })
    vim.list_extend(lines, M.fence(output))
    if call.result and call.result.truncated then
      table.insert(lines, string.format('*The model was given this part of %d bytes.*', call.result.bytes))
    end
  end
  return lines
end

--- Arguments of a call to read: strings as they are, the rest as JSON.
function M.arguments(args)
  local lines = {}
  local keys = vim.tbl_keys(args)
  table.sort(keys)
  for _, key in ipairs(keys) do
    local value = args[key]
    if type(value) ~= 'string' then value = vim.json.encode(value) end
    table.insert(lines, key .. (value:find('\n') and ':\n' or ': ') .. value)
  end
  return table.concat(lines, '\n')
end

return M
