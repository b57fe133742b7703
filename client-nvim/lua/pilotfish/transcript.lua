--- A session as the client knows it: reduces updates and loaded items to one list of items. No windows, no requests.
local M = {}

local PROGRESS_BYTES = 8000

---@class pilotfish.Transcript
---@field session? table the wire's Session
---@field items table[] what the chat shows, oldest first
---@field seq integer the last update that was reduced
---@field phase string where the turn is; `idle` between turns
---@field queue table[] prompts that wait for the running turn
---@field has_more boolean older items are in the store
local Transcript = {}
Transcript.__index = Transcript

---@param session? table
---@return pilotfish.Transcript
function M.new(session)
  return setmetatable({
    session = session,
    items = {},
    by_id = {},
    seq = 0,
    phase = 'idle',
    queue = {},
    has_more = false,
    context = nil,
    window = nil,
  }, Transcript)
end

--- From an answer of `session/load`.
---@param result table
function M.loaded(result)
  local transcript = M.new(result.session)
  transcript.seq, transcript.has_more = result.lastSeq, result.hasMore
  for _, item in ipairs(result.items) do transcript:put(item) end
  transcript.phase = result.session.busy and 'assistant' or 'idle'
  return transcript
end

--- Adds an item at the end, or replaces the one with its id in place.
function Transcript:put(item)
  local known = self.by_id[item.id]
  if known then
    for key, value in pairs(item) do known[key] = value end
    return known
  end
  table.insert(self.items, item)
  self.by_id[item.id] = item
  return item
end

--- Puts older items before the ones that are known.
function Transcript:prepend(result)
  self.has_more = result.hasMore
  for index, item in ipairs(result.items) do
    table.insert(self.items, index, item)
    self.by_id[item.id] = item
  end
end

--- A message of the client's own, not part of the session.
function Transcript:note(level, message, remedy)
  self.notes = (self.notes or 0) + 1
  return self:put({ id = 'note:' .. self.notes, kind = 'notice', level = level, message = message, remedy = remedy })
end

local reduce = {}

--- Reduces one update.
---@return 'ok'|'known'|'gap' outcome
---@return table? item the item that changed, if one did
---@return string? appended the text that was added at the item's end, if that is all that changed
function Transcript:update(params)
  if params.seq <= self.seq then return 'known' end
  if params.seq ~= self.seq + 1 then return 'gap' end
  self.seq = params.seq
  local apply = reduce[params.update.kind]
  if not apply then return 'ok' end
  return 'ok', apply(self, params.update, params)
end

function reduce.turn_started(self, update, params)
  self.phase = 'assistant'
  if self.session then self.session.busy = true end
  self:dequeue(update.promptId)
  return self:put({ id = 'prompt:' .. params.turnId, kind = 'prompt', turnId = params.turnId, prompt = update.prompt })
end

function reduce.state(self, update, params)
  self.phase = update.state
  if not update.prompt then return nil end
  self:dequeue(update.promptId)
  return self:put({ id = 'steered:' .. params.seq, kind = 'prompt', turnId = params.turnId, prompt = update.prompt })
end

local function chunk(kind)
  return function(self, update, params)
    local item = self.by_id[update.itemId]
    if not item then return self:put({ id = update.itemId, kind = kind, turnId = params.turnId, text = update.text }) end
    item.text = item.text .. update.text
    return item, update.text
  end
end
reduce.agent_message_chunk = chunk('message')
reduce.agent_thought_chunk = chunk('thought')

function reduce.tool_call(self, update, params)
  local call = update.call
  return self:put({ id = call.id, kind = 'tool_call', turnId = params.turnId, call = call })
end

function reduce.tool_progress(self, update)
  local item = self.by_id[update.callId]
  if not item then return nil end
  item.progress = ((item.progress or '') .. update.text):sub(-PROGRESS_BYTES)
  return item
end

function reduce.plan(self, update, params)
  return self:put({ id = 'plan:' .. params.turnId, kind = 'plan', entries = update.entries })
end

function reduce.file_changed(self, update, params)
  local item = vim.tbl_extend('force', update, { id = 'file:' .. params.seq, kind = 'file_change' })
  return self:put(item)
end

function reduce.usage(self, update)
  self.context, self.window = update.contextUsed, update.contextWindow
end

function reduce.notice(self, update, params)
  return self:put(vim.tbl_extend('force', update, { id = 'notice:' .. params.seq }))
end

function reduce.session_info(self, update) self.session = update.session end

function reduce.compaction(self, update, params)
  return self:put(vim.tbl_extend('force', update, { id = 'compaction:' .. params.seq }))
end

function reduce.claim(self, update, params)
  return self:put(vim.tbl_extend('force', update, { id = 'claim:' .. params.seq }))
end

function reduce.turn_ended(self, update, params)
  self.phase = 'idle'
  if self.session then self.session.busy = false end
  return self:put(vim.tbl_extend('force', update, { id = params.turnId .. '.end', kind = 'turn_end' }))
end

--- Whether a turn runs.
function Transcript:busy() return self.phase ~= 'idle' end

function Transcript:enqueue(prompt_id, prompt, kind)
  table.insert(self.queue, { promptId = prompt_id, prompt = prompt, kind = kind })
end

function Transcript:dequeue(prompt_id)
  self.queue = vim.tbl_filter(function(waiting) return waiting.promptId ~= prompt_id end, self.queue)
end

return M
