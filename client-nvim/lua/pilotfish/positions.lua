--- Positions in different encodings. Each language server agrees on its own units (UTF-8, UTF-16 or UTF-32), so what one
--- server says about a place is converted before another one reads it.
local connection = require('pilotfish.connection')

local M = {}

local NEW = vim.fn.has('nvim-0.11') == 1

--- The byte offset of `character`, which counts units of `encoding`.
function M.to_byte(line, character, encoding)
  if encoding == 'utf-8' then return math.min(character, #line) end
  if NEW then return vim.str_byteindex(line, encoding, character, false) end
  local ok, byte = pcall(vim.str_byteindex, line, character, encoding == 'utf-16')
  return ok and byte or #line
end

--- The inverse of `to_byte`.
function M.from_byte(line, byte, encoding)
  byte = math.min(byte, #line)
  if encoding == 'utf-8' then return byte end
  if NEW then return vim.str_utfindex(line, encoding, byte, false) end
  local utf32, utf16 = vim.str_utfindex(line, byte)
  return encoding == 'utf-16' and utf16 or utf32
end

--- A line of a document: of its buffer where it is loaded, else of the file.
---@param uri string
---@param row integer
---@param cache table<string, string[]>
local function line_of(uri, row, cache)
  if not cache[uri] then
    local buf = connection.loaded(uri)
    if buf then
      cache[uri] = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
    else
      local ok, lines = pcall(vim.fn.readfile, vim.uri_to_fname(uri))
      cache[uri] = ok and lines or {}
    end
  end
  return cache[uri][row + 1] or ''
end

--- `value`, an LSP structure, with every position in it converted from one encoding to another. `uri` names the document
--- that positions belong to until the structure names another one.
---@param value any
---@param uri string?
---@param from string
---@param to string
function M.convert(value, uri, from, to, cache)
  if from == to or type(value) ~= 'table' then return value end
  cache = cache or {}
  if value.line and value.character then
    if not uri then return value end
    local line = line_of(uri, value.line, cache)
    return { line = value.line, character = M.from_byte(line, M.to_byte(line, value.character, from), to) }
  end
  local document = value.textDocument
  uri = (type(value.uri) == 'string' and value.uri) or (type(document) == 'table' and document.uri) or uri
  local converted = {}
  for key, child in pairs(value) do
    local owner = uri
    if type(key) == 'string' and key:find('^%a+://') then owner = key end -- `changes` of a WorkspaceEdit
    if type(key) == 'string' and key:find('^target') then owner = value.targetUri end
    converted[key] = M.convert(child, owner, from, to, cache)
  end
  return converted
end

--- The first and the last row of a range, from 0. A range of whole lines ends at the beginning of the next line.
function M.rows(buf, range)
  local first, ending = range.start.line, range['end']
  local last = ending.character == 0 and ending.line - 1 or ending.line
  local final = vim.api.nvim_buf_line_count(buf) - 1
  return math.min(first, final), math.min(math.max(last, first), final)
end

--- An LSP range from the lines `first` to `last` (from 1, inclusive), or from byte columns where `columns` has them.
---@param buf integer
---@param columns? { [1]: integer, [2]: integer } from 0, the second one exclusive
function M.range(buf, first, last, encoding, columns)
  local function text(row) return vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or '' end
  if columns then
    return {
      start = { line = first - 1, character = M.from_byte(text(first - 1), columns[1], encoding) },
      ['end'] = { line = last - 1, character = M.from_byte(text(last - 1), columns[2], encoding) },
    }
  end
  local ending = text(last - 1)
  return {
    start = { line = first - 1, character = 0 },
    ['end'] = { line = last - 1, character = M.from_byte(ending, #ending, encoding) },
  }
end

return M
