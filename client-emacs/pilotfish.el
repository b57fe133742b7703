;;; pilotfish.el --- A coding agent that works on your buffers  -*- lexical-binding: t -*-

;; Version: 0.2.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, convenience
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A thin client of the `pilotfish/*' protocol: a chat buffer, prompts on the region, approvals with the whole preview in
;; a window, saves, and the diagnostics of Flymake or Flycheck, whoever feeds them (eglot, lsp-mode or others).
;;
;; It runs beside eglot and lsp-mode with a connection of its own: eglot has one server for a buffer, and `jsonrpc.el'
;; answers a request when its function returns, while a question to the user is answered later.
;;
;; `M-x pilotfish' opens the chat or sends a prompt, with the region where there is one.

;;; Code:

(require 'cl-lib)
(require 'diff)
(require 'project)
(require 'seq)
(require 'subr-x)
(require 'url-util)

(declare-function flymake-diagnostics "flymake")
(declare-function flymake-diagnostic-beg "flymake")
(declare-function flymake-diagnostic-end "flymake")
(declare-function flymake-diagnostic-type "flymake")
(declare-function flymake-diagnostic-text "flymake")
(defvar flycheck-current-errors)
(declare-function flycheck-error-line "flycheck")
(declare-function flycheck-error-column "flycheck")
(declare-function flycheck-error-level "flycheck")
(declare-function flycheck-error-message "flycheck")

(defgroup pilotfish nil "A coding agent that works on your buffers." :group 'tools)

(defcustom pilotfish-command '("pilotfish" "serve")
  "How the server is started."
  :type '(repeat string))

(defcustom pilotfish-settings nil
  "Settings of the server as a plist, such as (:model \"ollama:qwen3\" :mode \"ask\")."
  :type 'plist)

(defcustom pilotfish-trust-file (locate-user-emacs-file "pilotfish-trust.eld")
  "Where it is kept which folders are trusted."
  :type 'file)

(defcustom pilotfish-context t
  "Whether prompts carry what you look at: the file, point, and its problems."
  :type 'boolean)

(defface pilotfish-prompt '((t :inherit font-lock-keyword-face :weight bold)) "Headings of the user's prompts.")
(defface pilotfish-changed '((t :inherit diff-added :extend t)) "Lines that the agent changed.")
(defface pilotfish-deleted '((t :inherit diff-removed :extend t)) "Lines that the agent replaced.")
(defface pilotfish-note '((t :inherit shadow)) "Notes between the messages.")

;;;; State

(defvar pilotfish--session nil "The current session, as the wire has it.")
(defvar pilotfish--seq 0 "The last update that was shown.")
(defvar pilotfish--busy nil "Whether a turn runs.")
(defvar pilotfish--inline-requests nil "The requests of inline edits that are not answered.")
(defvar pilotfish--loading nil
  "While a session is loaded: its id, then the updates that came, newest first.")
(defvar pilotfish--questions nil
  "Alist of id to what waits for an answer, oldest first.")
(defvar-local pilotfish--version nil
  "The version of this buffer that the server has, or nil.")
(defvar-local pilotfish--tick nil
  "`buffer-chars-modified-tick' of that version.")

;;;; The connection

(defvar pilotfish--process nil "The server process.")
(defvar pilotfish--root nil "The workspace folder.")
(defvar pilotfish--next-id 0)
(defvar pilotfish--callbacks nil "Alist of request id to function of (ERROR RESULT).")
(defvar pilotfish--ready nil "Non-nil once the server is initialized.")

(defun pilotfish--live-p ()
  "Whether the server runs and is initialized."
  (and pilotfish--ready (process-live-p pilotfish--process)))

(defun pilotfish--send (message)
  "Send MESSAGE, a plist."
  (let ((json (json-serialize `(:jsonrpc "2.0" ,@message) :null-object nil :false-object :json-false)))
    (process-send-string pilotfish--process (format "Content-Length: %d\r\n\r\n%s" (string-bytes json) json))))

(defun pilotfish--notify (method params)
  "Send a notification METHOD with PARAMS."
  (pilotfish--send `(:method ,method :params ,params)))

(defun pilotfish--call (method params callback)
  "Send a request METHOD with PARAMS; CALLBACK gets ERROR and RESULT.
Returns the id of the request."
  (let ((id (cl-incf pilotfish--next-id)))
    (push (cons id callback) pilotfish--callbacks)
    (pilotfish--send `(:id ,id :method ,method :params ,(or params (make-hash-table))))
    id))

(defun pilotfish--request (method params &optional callback)
  "Send pilotfish/METHOD with PARAMS; CALLBACK gets the result, an error is shown.
Buffers are synchronized first."
  (unless (pilotfish--live-p) (user-error "The Pilotfish server does not run; M-x pilotfish starts it"))
  (pilotfish--sync-all)
  (pilotfish--call (concat "pilotfish/" method) params
                   (lambda (error result)
                     (if error (pilotfish--note "error" (plist-get error :message))
                       (when callback (funcall callback result))))))

(defun pilotfish--filter (process bytes)
  "Collect BYTES of PROCESS and dispatch each whole message."
  (let ((buffer (process-buffer process)))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (goto-char (point-max))
        (insert bytes)
        (goto-char (point-min))
        (let (message)
          (while (setq message (pilotfish--next-message))
            (pilotfish--dispatch message)
            (set-buffer buffer)))))))

(defun pilotfish--next-message ()
  "Take one message off the start of the current buffer, or return nil."
  (goto-char (point-min))
  (when (search-forward "\r\n\r\n" nil t)
    (let* ((start (point))
           (end (progn (goto-char (point-min))
                       (re-search-forward "^Content-Length: *\\([0-9]+\\)" start)
                       (+ start (string-to-number (match-string 1))))))
      (when (<= end (point-max))
        (prog1 (json-parse-string (decode-coding-string (buffer-substring start end) 'utf-8)
                                  :object-type 'plist :null-object nil :false-object nil)
          (delete-region (point-min) end))))))

(defun pilotfish--dispatch (message)
  "Handle MESSAGE: an answer, a request or a notification."
  (let ((id (plist-get message :id)) (method (plist-get message :method)) (params (plist-get message :params)))
    (condition-case problem
        (cond
         ((and id method) (pilotfish--answer id method params))
         (method (pilotfish--notified method params))
         (id (let ((callback (alist-get id pilotfish--callbacks)))
               (setq pilotfish--callbacks (assq-delete-all id pilotfish--callbacks))
               (when callback (funcall callback (plist-get message :error) (plist-get message :result))))))
      (error (message "Pilotfish: %s" (error-message-string problem))))))

(defun pilotfish--reply (id result)
  "Answer the server's request ID with RESULT."
  (when (process-live-p pilotfish--process)
    (pilotfish--send `(:id ,id :result ,result))))

(defun pilotfish--answer (id method params)
  "Answer the server's request METHOD with PARAMS, now or when the user has."
  (pcase method
    ("pilotfish/approval/request" (pilotfish--ask-approval params id))
    ("pilotfish/user/ask" (pilotfish--ask-user params id))
    (_
     (let ((answer (pcase method
                     ("workspace/applyEdit" #'pilotfish--apply-edit)
                     ("pilotfish/editor/open" #'pilotfish--editor-open)
                     ("pilotfish/editor/save" #'pilotfish--editor-save)
                     ("pilotfish/editor/context" (lambda (_params) (or (pilotfish--looking-at) (make-hash-table))))
                     ("pilotfish/editor/diagnostics" #'pilotfish--editor-diagnostics)
                     ("workspace/configuration"
                      (lambda (params) (vconcat (mapcar (lambda (_) (pilotfish--settings)) (plist-get params :items)))))
                     ((or "window/workDoneProgress/create" "client/registerCapability" "workspace/codeLens/refresh")
                      #'ignore))))
       (if (not answer)
           (pilotfish--send `(:id ,id :error (:code -32601 :message ,(concat "Not answered: " method))))
         (pilotfish--reply id (condition-case problem (funcall answer params)
                                (error (message "Pilotfish: %s: %s" method (error-message-string problem)) nil))))))))

(defun pilotfish--notified (method params)
  "Handle the notification METHOD with PARAMS."
  (pcase method
    ("pilotfish/session/update" (pilotfish--updated params))
    ("pilotfish/approval/resolved" (pilotfish--close-question (plist-get params :approvalId)))
    ("window/showMessage" (message "Pilotfish: %s" (plist-get params :message)))))

(defun pilotfish--settings ()
  "The settings as JSON's object."
  (or pilotfish-settings (make-hash-table)))

(defun pilotfish--start (callback)
  "Start the server where it does not run, then call CALLBACK."
  (if (pilotfish--live-p) (funcall callback)
    (let* ((project (project-current))
           (root (expand-file-name (if project (pilotfish--project-root project) default-directory)))
           (trusted (pilotfish--trusted-p root)))
      (setq pilotfish--root root pilotfish--callbacks nil pilotfish--ready nil)
      (when (buffer-live-p (get-buffer " *pilotfish wire*")) (kill-buffer " *pilotfish wire*"))
      (setq pilotfish--process
            (let ((default-directory root))
              (make-process :name "pilotfish" :command pilotfish-command :connection-type 'pipe :coding 'binary
                            :buffer (with-current-buffer (get-buffer-create " *pilotfish wire*")
                                      (set-buffer-multibyte nil) (current-buffer))
                            :stderr (get-buffer-create " *pilotfish stderr*") :noquery t
                            :filter #'pilotfish--filter :sentinel #'pilotfish--ended)))
      (pilotfish--call
       "initialize"
       `(:processId ,(emacs-pid) :rootUri ,(pilotfish--uri root)
         :workspaceFolders [(:uri ,(pilotfish--uri root) :name ,(file-name-nondirectory (directory-file-name root)))]
         :capabilities (:general (:positionEncodings ["utf-32"])
                        :workspace (:applyEdit t :configuration t :workspaceEdit (:documentChanges t)))
         :initializationOptions
         (:pilotfish (:protocolVersion 1 :client (:approvals t :approvalEffects t :ask t :save t :diagnostics t
                                                  :context t :inlineEdit t)
                      :trusted ,(if trusted t :json-false) :settings ,(pilotfish--settings))))
       (lambda (error _result)
         (if error (message "Pilotfish: %s" (plist-get error :message))
           (pilotfish--notify "initialized" (make-hash-table))
           (setq pilotfish--ready t)
           (mapc #'pilotfish--open-buffer (buffer-list))
           (add-hook 'find-file-hook #'pilotfish--found-file)
           ;; After a restart the conversation goes on where it was.
           (if pilotfish--session (pilotfish--load (plist-get pilotfish--session :id) callback)
             (funcall callback))))))))

(defun pilotfish--project-root (project)
  "The folder of PROJECT."
  (if (fboundp 'project-root) (project-root project) (car (with-no-warnings (project-roots project)))))

(defun pilotfish--ended (process event)
  "Clean up after PROCESS, which ended with EVENT."
  (unless (process-live-p process)
    (setq pilotfish--ready nil pilotfish--busy nil)
    (remove-hook 'find-file-hook #'pilotfish--found-file)
    (dolist (buffer (buffer-list))
      (with-current-buffer buffer
        (when pilotfish--version (pilotfish--forget-buffer))))
    (mapc #'pilotfish--close-question (mapcar #'car pilotfish--questions))
    (unless (string-prefix-p "finished" event)
      (pilotfish--note "error" (format "The Pilotfish server ended (%s). The next prompt starts it again."
                                       (string-trim event))))))

(defun pilotfish-shutdown ()
  "End the server. The next prompt starts it again, and the session goes on."
  (interactive)
  (when (process-live-p pilotfish--process)
    (let ((process pilotfish--process))
      (pilotfish--call "shutdown" nil (lambda (_e _r) (pilotfish--notify "exit" nil)))
      (run-at-time 3 nil (lambda () (when (process-live-p process) (kill-process process)))))))

(defun pilotfish--trusted-p (root)
  "Whether ROOT is trusted; asks the user once and keeps the answer."
  (let* ((known (when (file-readable-p pilotfish-trust-file)
                  (with-temp-buffer (insert-file-contents pilotfish-trust-file) (read (current-buffer)))))
         (entry (assoc root known)))
    (if entry (cdr entry)
      (let ((answer (y-or-n-p (format "Trust %s?  Pilotfish would change files and run commands there, after asking.  (n: it only reads) " root))))
        (with-temp-file pilotfish-trust-file (prin1 (cons (cons root answer) known) (current-buffer)))
        answer))))

;;;; Documents


(defun pilotfish--uri (path)
  "PATH as a URI."
  (concat "file://" (url-hexify-string (directory-file-name (file-truename path)) url-path-allowed-chars)))

(defun pilotfish--path (uri)
  "The path of URI."
  (decode-coding-string (url-unhex-string (string-remove-prefix "file://" uri)) 'utf-8))

(defun pilotfish--buffer (uri)
  "The buffer that visits URI, or nil."
  (let ((path (pilotfish--path uri)))
    (seq-find (lambda (buffer)
                (let ((file (buffer-file-name buffer)))
                  (and file (not (file-remote-p file)) (equal (file-truename file) path))))
              (buffer-list))))

(defun pilotfish--dos-p ()
  "Whether lines of this buffer end with CR LF on disk."
  (eq (coding-system-eol-type buffer-file-coding-system) 1))

(defun pilotfish--text ()
  "The text of this buffer as it is on disk or would be, whole."
  (save-restriction
    (widen)
    (let ((text (buffer-substring-no-properties (point-min) (point-max))))
      (if (pilotfish--dos-p) (string-replace "\n" "\r\n" text) text))))

(defun pilotfish--found-file ()
  "Tell the server of a file that was opened."
  (pilotfish--open-buffer (current-buffer)))

(defun pilotfish--open-buffer (buffer)
  "Tell the server of BUFFER, if it visits a local file."
  (with-current-buffer buffer
    (when (and (pilotfish--live-p) buffer-file-name (not pilotfish--version) (not (file-remote-p buffer-file-name)))
      (setq pilotfish--version 1 pilotfish--tick (buffer-chars-modified-tick))
      (add-hook 'after-change-functions #'pilotfish--changed nil t)
      (add-hook 'after-save-hook #'pilotfish--saved nil t)
      (add-hook 'kill-buffer-hook #'pilotfish--killed nil t)
      (pilotfish--notify "textDocument/didOpen"
                         `(:textDocument (:uri ,(pilotfish--uri buffer-file-name) :languageId ""
                                          :version 1 :text ,(pilotfish--text)))))))

(defvar pilotfish--sync-timer nil)

(defun pilotfish--changed (&rest _)
  "Send what was typed soon."
  (unless pilotfish--sync-timer
    (setq pilotfish--sync-timer
          (run-with-timer 0.2 nil (lambda () (setq pilotfish--sync-timer nil) (pilotfish--sync-all))))))

(defun pilotfish--sync-all ()
  "Send the text of every buffer that has changed."
  (when (pilotfish--live-p)
    (dolist (buffer (buffer-list))
      (with-current-buffer buffer (when pilotfish--version (pilotfish--sync))))))

(defun pilotfish--sync ()
  "Send the text of this buffer if it has changed; returns whether it had."
  (unless (eql pilotfish--tick (buffer-chars-modified-tick))
    (setq pilotfish--tick (buffer-chars-modified-tick))
    (cl-incf pilotfish--version)
    (pilotfish--notify "textDocument/didChange"
                       `(:textDocument (:uri ,(pilotfish--uri buffer-file-name) :version ,pilotfish--version)
                         :contentChanges [(:text ,(pilotfish--text))]))
    t))

(defun pilotfish--saved ()
  "Tell the server that this buffer was saved."
  (when (and pilotfish--version (pilotfish--live-p))
    (pilotfish--sync)
    (pilotfish--notify "textDocument/didSave" `(:textDocument (:uri ,(pilotfish--uri buffer-file-name))))))

(defun pilotfish--killed ()
  "Tell the server that this buffer is closed."
  (when (and pilotfish--version (pilotfish--live-p))
    (pilotfish--notify "textDocument/didClose" `(:textDocument (:uri ,(pilotfish--uri buffer-file-name))))))

(defun pilotfish--forget-buffer ()
  "The server does not have this buffer any more."
  (setq pilotfish--version nil pilotfish--tick nil)
  (remove-hook 'after-change-functions #'pilotfish--changed t)
  (remove-hook 'after-save-hook #'pilotfish--saved t)
  (remove-hook 'kill-buffer-hook #'pilotfish--killed t))

(defun pilotfish--each (uris function)
  "Call FUNCTION on each of URIS; return the results and the failures."
  (let (done failed)
    (seq-do (lambda (uri)
              (condition-case problem (push (funcall function uri) done)
                (error (push `(:uri ,uri :reason ,(error-message-string problem)) failed))))
            uris)
    (list (vconcat (nreverse done)) (vconcat (nreverse failed)))))

(defun pilotfish--editor-open (params)
  "Answer editor/open with PARAMS: hold documents without a window."
  (pcase-let ((`(,opened ,failed)
               (pilotfish--each
                (plist-get params :uris)
                (lambda (uri)
                  (let ((path (pilotfish--path uri)))
                    (unless (file-regular-p path) (error "There is no such file"))
                    (with-current-buffer (or (pilotfish--buffer uri) (let ((large-file-warning-threshold nil)) (find-file-noselect path t)))
                      (pilotfish--open-buffer (current-buffer))
                      (pilotfish--sync)
                      `(:uri ,uri :version ,pilotfish--version :dirty ,(if (buffer-modified-p) t :json-false))))))))
    `(:opened ,opened :failed ,failed)))

(defun pilotfish--editor-save (params)
  "Answer editor/save with PARAMS."
  (pcase-let ((`(,saved ,failed)
               (pilotfish--each
                (plist-get params :uris)
                (lambda (uri)
                  (let ((buffer (pilotfish--buffer uri)))
                    (when buffer
                      (with-current-buffer buffer
                        ;; A save over a file that changed on disk would stop at a question of Emacs'.
                        (unless (verify-visited-file-modtime buffer)
                          (error "The file changed on disk as well as in the editor"))
                        (when (buffer-modified-p) (let ((save-silently t)) (basic-save-buffer)))
                        (when (buffer-modified-p) (error "The editor did not save it"))))
                    uri)))))
    `(:saved ,saved :failed ,failed)))

(defun pilotfish--position (place)
  "The buffer position of PLACE, a Position in code points."
  (save-excursion
    (goto-char (point-min))
    (forward-line (plist-get place :line))
    (min (+ (point) (plist-get place :character)) (line-end-position))))

(defun pilotfish--place (position)
  "POSITION of the current buffer as a Position in code points."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      `(:line ,(1- (line-number-at-pos)) :character ,(- (point) (line-beginning-position))))))

(defun pilotfish--apply-edit (params)
  "Answer workspace/applyEdit with PARAMS.
Exactly the versions the server saw are edited, or nothing is."
  (let* ((changes (plist-get (plist-get params :edit) :documentChanges))
         (stale (seq-find (lambda (change)
                            (let* ((document (plist-get change :textDocument))
                                   (buffer (pilotfish--buffer (plist-get document :uri))))
                              (or (null buffer)
                                  (with-current-buffer buffer
                                    (or buffer-read-only (pilotfish--sync)
                                        (not (eql pilotfish--version (plist-get document :version))))))))
                          changes)))
    (if (or stale (seq-empty-p changes)) '(:applied :json-false :failureReason "the document moved on")
      (seq-do (lambda (change)
                (with-current-buffer (pilotfish--buffer (plist-get (plist-get change :textDocument) :uri))
                  (pilotfish--apply (plist-get change :edits))
                  (pilotfish--sync)))
              changes)
      '(:applied t))))

(defun pilotfish--apply (edits)
  "Make EDITS in the current buffer, as one step of undo."
  (save-excursion
    (save-restriction
      (widen)
      (undo-boundary)
      (let ((places (mapcar (lambda (edit)
                              (let ((range (plist-get edit :range)))
                                (list (copy-marker (pilotfish--position (plist-get range :start)))
                                      (copy-marker (pilotfish--position (plist-get range :end)))
                                      (plist-get edit :newText))))
                            edits)))
        (atomic-change-group
          (pcase-dolist (`(,start ,end ,text) (nreverse places))
            (goto-char start)
            (delete-region start end)
            (insert (if (pilotfish--dos-p) (string-replace "\r\n" "\n" text) text)))))
      (undo-boundary))))

(defun pilotfish--diagnostics-here ()
  "The diagnostics of this buffer, from Flymake or Flycheck."
  (cond
   ((bound-and-true-p flycheck-mode)
    (mapcar (lambda (problem)
              (let* ((line (1- (flycheck-error-line problem)))
                     (place `(:line ,line :character ,(1- (or (flycheck-error-column problem) 1)))))
                `(:range (:start ,place :end ,place) :message ,(or (flycheck-error-message problem) "")
                  :severity ,(pcase (flycheck-error-level problem) ('error 1) ('warning 2) (_ 3)))))
            flycheck-current-errors))
   ((bound-and-true-p flymake-mode)
    (mapcar (lambda (problem)
              `(:range (:start ,(pilotfish--place (flymake-diagnostic-beg problem))
                        :end ,(pilotfish--place (flymake-diagnostic-end problem)))
                :message ,(flymake-diagnostic-text problem) :severity ,(pilotfish--severity (flymake-diagnostic-type problem))))
            (flymake-diagnostics)))))

(defun pilotfish--severity (type)
  "LSP's severity of the Flymake diagnostic TYPE."
  (let ((category (or (and (symbolp type) (get type 'flymake-category)) type)))
    (pcase category
      ((or 'flymake-error 'eglot-error :error) 1)
      ((or 'flymake-warning 'eglot-warning :warning) 2)
      (_ 3))))

(defun pilotfish--editor-diagnostics (params)
  "Answer editor/diagnostics with PARAMS, with what is known now."
  (let* ((uri (plist-get params :uri))
         (buffers (if uri (delq nil (list (pilotfish--buffer uri)))
                    (seq-filter (lambda (buffer) (buffer-local-value 'pilotfish--version buffer)) (buffer-list)))))
    `(:documents
      ,(vconcat (delq nil (mapcar (lambda (buffer)
                                    (with-current-buffer buffer
                                      (let ((found (vconcat (pilotfish--diagnostics-here))))
                                        (when (or uri (not (seq-empty-p found)))
                                          `(:uri ,(or uri (pilotfish--uri buffer-file-name))
                                            :version ,pilotfish--version :diagnostics ,found)))))
                                  buffers))))))

(defun pilotfish--looking-at ()
  "What the user looks at, as the fields of a `context' content block."
  (if (not pilotfish-context) '(:git :json-false)
    (let ((window (seq-find (lambda (window)
                              (let ((file (buffer-file-name (window-buffer window))))
                                (and file (not (file-remote-p file)))))
                            (cons (selected-window) (window-list nil 'no-minibuffer)))))
      (when window
        (with-current-buffer (window-buffer window)
          (let ((point (window-point window)) (start (window-start window)))
            `(:active
              (:uri ,(pilotfish--uri buffer-file-name) :cursor ,(pilotfish--place point)
               ,@(when (and (region-active-p) (/= point (mark)))
                   `(:selection (:start ,(pilotfish--place (min point (mark))) :end ,(pilotfish--place (max point (mark))))))
               :visible (:start ,(pilotfish--place start) :end ,(pilotfish--place (max start (window-end window t))))
               :diagnostics ,(vconcat (pilotfish--diagnostics-here))))))))))

;;;; The chat

(defvar-local pilotfish--input nil "Marker: where the prompt starts.")

(defvar pilotfish-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'pilotfish-send)
    (define-key map (kbd "M-RET") #'pilotfish-steer)
    (define-key map (kbd "C-j") #'newline)
    (define-key map (kbd "C-c C-c") #'pilotfish-stop)
    (define-key map (kbd "C-c C-a") #'pilotfish-approve)
    (define-key map (kbd "C-c C-s") #'pilotfish-sessions)
    map))

(defconst pilotfish--font-lock
  '(("^## .*$" . 'pilotfish-prompt)
    ("\\*\\*\\(.+?\\)\\*\\*" 1 'bold)
    ("`[^`\n]+`" . font-lock-constant-face)
    ("^> .*$" . 'pilotfish-note)
    ("^\\+.*$" . 'diff-added)
    ("^-[^ -].*$\\|^-   .*$" . 'diff-removed)))

(define-derived-mode pilotfish-chat-mode text-mode "Pilotfish"
  "The conversation, with the prompt at its end.
\\{pilotfish-chat-mode-map}"
  (setq-local font-lock-defaults '(pilotfish--font-lock t))
  (setq-local header-line-format '(:eval (pilotfish--header)))
  (visual-line-mode 1))

(defun pilotfish--header ()
  "The line above the chat: the session, and the keys."
  (concat (string-join (delq nil (list (or (plist-get pilotfish--session :title) "Pilotfish")
                                       (plist-get pilotfish--session :model) (plist-get pilotfish--session :mode)
                                       (cond (pilotfish--questions "asks you: C-c C-a") (pilotfish--busy "works"))))
                       " · ")
          (if pilotfish--busy "    RET queue  M-RET steer  C-c C-c stop" "    RET send  C-j new line")))

(defun pilotfish--chat ()
  "The chat buffer."
  (or (get-buffer "*pilotfish*")
      (with-current-buffer (get-buffer-create "*pilotfish*")
        (pilotfish-chat-mode)
        (pilotfish--clear)
        (current-buffer))))

(defun pilotfish--clear ()
  "Empty the chat, but for what is written in the prompt."
  (with-current-buffer (pilotfish--chat)
    (let ((written (if pilotfish--input (buffer-substring-no-properties pilotfish--input (point-max)) ""))
          (inhibit-read-only t))
      (erase-buffer)
      (insert (propertize "> " 'read-only t 'front-sticky '(read-only) 'rear-nonsticky t 'face 'pilotfish-prompt))
      (setq pilotfish--input (copy-marker (point)))
      (insert written))))

(defun pilotfish--transcript-end ()
  "Where the transcript ends: before the sign of the prompt."
  (- (marker-position pilotfish--input) 2))

(defmacro pilotfish--in-transcript (&rest body)
  "Run BODY in the chat; windows whose point is in the prompt stay there."
  (declare (indent 0) (debug t))
  `(with-current-buffer (pilotfish--chat)
     (let ((inhibit-read-only t) (buffer-undo-list t))
       (save-excursion ,@body)
       (dolist (window (get-buffer-window-list nil nil t))
         (when (>= (window-point window) pilotfish--input)
           (with-selected-window window (goto-char (max (point) pilotfish--input)) (recenter -1))))
       (force-mode-line-update))))

(defun pilotfish--item-bounds (id)
  "Start and end of the item ID in the transcript, or nil."
  ;; Text properties are compared with `eq', so the value is a symbol.
  (let ((start (text-property-any (point-min) (pilotfish--transcript-end) 'pilotfish-item (intern id))))
    (when start (cons start (next-single-property-change start 'pilotfish-item nil (pilotfish--transcript-end))))))

(defun pilotfish--insert (text id)
  "Insert TEXT as part of the item ID."
  (insert (propertize text 'pilotfish-item (intern id) 'read-only t 'front-sticky '(read-only) 'rear-nonsticky nil)))

(defun pilotfish--put (id text)
  "Show TEXT as the item ID: in its place, or at the end."
  (pilotfish--in-transcript
    (let ((bounds (pilotfish--item-bounds id)))
      (if bounds (progn (goto-char (car bounds)) (delete-region (car bounds) (cdr bounds)))
        (goto-char (pilotfish--transcript-end)))
      (pilotfish--insert (concat text "\n\n") id))))

(defun pilotfish--append (id text)
  "Add TEXT at the end of the item ID, which is made where it does not exist."
  (pilotfish--in-transcript
    (let ((bounds (pilotfish--item-bounds id)))
      (if (not bounds) (progn (goto-char (pilotfish--transcript-end)) (pilotfish--insert (concat text "\n\n") id))
        (goto-char (- (cdr bounds) 2))
        (pilotfish--insert text id)))))

(defvar pilotfish--notes 0)

(defun pilotfish--note (level message)
  "Show MESSAGE with its LEVEL in the chat."
  (pilotfish--put (format "note:%d" (cl-incf pilotfish--notes)) (format "> **%s**: %s" level message)))

(defun pilotfish--prompt-text (blocks)
  "The content BLOCKS as text."
  (mapconcat (lambda (block)
               (pcase (plist-get block :type)
                 ("text" (plist-get block :text))
                 ("resource" (let ((range (plist-get block :range)))
                               (format "@%s%s" (file-relative-name (pilotfish--path (plist-get block :uri)) pilotfish--root)
                                       (if range (format ":%d-%d" (1+ (plist-get (plist-get range :start) :line))
                                                         (1+ (plist-get (plist-get range :end) :line)))
                                         ""))))
                 (type (format "(%s)" type))))
             blocks "\n"))

(defconst pilotfish--status-signs
  '(("pending" . "…") ("awaiting_approval" . "?") ("in_progress" . "▸") ("completed" . "✓") ("failed" . "✗")
    ("denied" . "⊘") ("cancelled" . "■")))

(defun pilotfish--call-text (call)
  "A tool CALL for the transcript."
  (let* ((output (plist-get (plist-get call :result) :text))
         (shown (cond ((plist-get call :diff)) ((equal (plist-get call :category) "execute") output))))
    (concat (format "**%s %s**" (alist-get (plist-get call :status) pilotfish--status-signs "?" nil #'equal)
                    (plist-get call :title))
            (if (plist-get call :error) (concat "\n> " (plist-get call :error)) "")
            (if (and shown (not (string-empty-p shown))) (concat "\n```\n" (string-trim-right shown "\n") "\n```") ""))))

(defun pilotfish--end-text (end)
  "The END of a turn for the transcript."
  (let ((failure (plist-get end :error)) (reason (plist-get end :stopReason)))
    (concat (cond (failure (format "> **Failed**: %s %s\n" (plist-get failure :message) (plist-get failure :remedy)))
                  ((equal reason "cancelled") "**Stopped.**\n")
                  ((equal reason "end_turn") "")
                  (t (format "**Ended: %s**\n" reason)))
            "---")))

(defun pilotfish--item (item)
  "Show ITEM of session/load."
  (let ((id (plist-get item :id)))
    (pcase (plist-get item :kind)
      ("prompt" (pilotfish--put id (concat "## You\n" (pilotfish--prompt-text (plist-get item :prompt)))))
      ("message" (pilotfish--put id (plist-get item :text)))
      ("thought" (pilotfish--put id (concat "> " (string-replace "\n" "\n> " (plist-get item :text)))))
      ("tool_call" (pilotfish--put id (pilotfish--call-text (plist-get item :call))))
      ("notice" (pilotfish--put id (format "> **%s**: %s %s" (plist-get item :level) (plist-get item :message)
                                           (or (plist-get item :remedy) ""))))
      ("claim" (when (equal (plist-get item :verdict) "unsupported")
                 (pilotfish--put id (format "> **not verified**: %s (%s)" (plist-get item :text)
                                            (or (plist-get item :evidence) "")))))
      ("turn_end" (pilotfish--put id (pilotfish--end-text item))))))

(defun pilotfish--updated (params)
  "Show the update in PARAMS; a gap in their numbers loads the session."
  (when (equal (plist-get params :sessionId) (plist-get pilotfish--session :id))
    (let ((seq (plist-get params :seq)))
      (cond (pilotfish--loading (push params (cdr pilotfish--loading)))
            ((<= seq pilotfish--seq))
            ((/= seq (1+ pilotfish--seq)) (pilotfish--load (plist-get params :sessionId)))
            (t (setq pilotfish--seq seq)
               (pilotfish--update (plist-get params :update) (plist-get params :turnId) seq))))))

(defun pilotfish--update (update turn seq)
  "Show UPDATE of TURN with the number SEQ."
  (when (member (plist-get update :kind) '("file_changed" "review_changed" "turn_ended")) (pilotfish--refresh-review))
  (pcase (plist-get update :kind)
    ("turn_started"
     (setq pilotfish--busy t)
     (pilotfish--item `(:kind "prompt" :id ,(concat "prompt:" turn) :prompt ,(plist-get update :prompt))))
    ("state"
     (when (plist-get update :prompt)
       (pilotfish--item `(:kind "prompt" :id ,(format "steered:%d" seq) :prompt ,(plist-get update :prompt)))))
    ("agent_message_chunk" (pilotfish--append (plist-get update :itemId) (plist-get update :text)))
    ("agent_thought_chunk"
     (let* ((id (plist-get update :itemId)) (text (string-replace "\n" "\n> " (plist-get update :text))))
       (pilotfish--append id (if (with-current-buffer (pilotfish--chat) (pilotfish--item-bounds id)) text (concat "> " text)))))
    ("tool_call" (let ((call (plist-get update :call))) (pilotfish--put (plist-get call :id) (pilotfish--call-text call))))
    ("notice" (pilotfish--item `(:id ,(format "notice:%d" seq) ,@update)))
    ("claim" (pilotfish--item `(:id ,(format "claim:%d" seq) ,@update)))
    ("session_info" (setq pilotfish--session (plist-get update :session)))
    ("turn_ended"
     (setq pilotfish--busy nil)
     (pilotfish--put (concat turn ".end") (pilotfish--end-text update))
     (pcase-dolist (`(,id . ,question) pilotfish--questions)
       (when (and (equal (plist-get question :turn) turn) (string-prefix-p "ask:" id))
         (pilotfish--close-question id))))))

(defun pilotfish--load (session-id &optional callback)
  "Load SESSION-ID and show it, then call CALLBACK."
  (setq pilotfish--loading (list session-id))
  (pilotfish--request
   "session/load" `(:sessionId ,session-id)
   (lambda (result)
     (let ((missed (reverse (cdr pilotfish--loading))))
       (setq pilotfish--loading nil
             pilotfish--session (plist-get result :session)
             pilotfish--seq (plist-get result :lastSeq)
             pilotfish--busy (plist-get pilotfish--session :busy))
       (pilotfish--clear)
       (seq-do #'pilotfish--item (plist-get result :items))
       (seq-do #'pilotfish--ask-approval (plist-get result :pendingApprovals))
       (mapc #'pilotfish--updated missed)
       (when callback (funcall callback))))))

;;;; Commands

(defun pilotfish--region-block ()
  "The region as a content block, or nil."
  (when (use-region-p)
    (if (and buffer-file-name (not (file-remote-p buffer-file-name)))
        `((:type "resource" :uri ,(pilotfish--uri buffer-file-name)
           :range (:start ,(pilotfish--place (region-beginning)) :end ,(pilotfish--place (region-end)))))
      `((:type "text" :text ,(buffer-substring-no-properties (region-beginning) (region-end)))))))

(defun pilotfish--prompt (blocks when-busy)
  "Send content BLOCKS; WHEN-BUSY is \"queue\" or \"steer\"."
  (push `(:type "context" ,@(pilotfish--looking-at)) blocks)
  (pilotfish--start
   (lambda ()
     (let ((send (lambda ()
                   (pilotfish--request
                    "session/prompt"
                    `(:sessionId ,(plist-get pilotfish--session :id) :prompt ,(vconcat blocks) :whenBusy ,when-busy)
                    (lambda (result)
                      (let ((reply (plist-get result :reply)) (next (plist-get result :sessionId)))
                        (when reply (pilotfish--note "command" reply))
                        (when next (pilotfish--load next))))))))
       (if pilotfish--session (funcall send)
         (pilotfish--request "session/new" nil
                             (lambda (result)
                               (setq pilotfish--session (plist-get result :session) pilotfish--seq 0)
                               (funcall send))))))))

;;;###autoload
(defun pilotfish (prompt)
  "Send PROMPT to the agent, about the region where there is one.
An empty PROMPT only opens the chat."
  (interactive (list (read-string "Pilotfish (empty: the chat): ")))
  (let ((about (pilotfish--region-block)))
    (display-buffer (pilotfish--chat) '((display-buffer-reuse-window display-buffer-pop-up-window)))
    (if (string-empty-p prompt)
        (progn (pop-to-buffer (pilotfish--chat)) (goto-char (point-max)))
      (pilotfish--prompt `((:type "text" :text ,prompt) ,@about) "queue"))))

(defun pilotfish-send (&optional steer)
  "Send what is written in the chat; with STEER into the running turn."
  (interactive)
  (let ((text (string-trim (buffer-substring-no-properties pilotfish--input (point-max)))))
    (when (string-empty-p text) (user-error "The prompt is empty"))
    (delete-region pilotfish--input (point-max))
    (pilotfish--prompt `((:type "text" :text ,text)) (if steer "steer" "queue"))))

(defun pilotfish-steer ()
  "Send what is written in the chat into the running turn."
  (interactive)
  (pilotfish-send t))

(defun pilotfish-stop ()
  "Stop the running turn, and the inline edits that run."
  (interactive)
  (dolist (id pilotfish--inline-requests) (pilotfish--notify "$/cancelRequest" `(:id ,id)))
  (unless (or pilotfish--session pilotfish--inline-requests) (user-error "There is no session to stop"))
  (when pilotfish--session (pilotfish--request "session/cancel" `(:sessionId ,(plist-get pilotfish--session :id)))))

(defun pilotfish-new ()
  "Start a new session."
  (interactive)
  (setq pilotfish--session nil pilotfish--seq 0 pilotfish--busy nil)
  (pilotfish--clear)
  (pop-to-buffer (pilotfish--chat)))

(defun pilotfish--choose (prompt choices callback)
  "Read one of CHOICES, an alist, with PROMPT; CALLBACK gets its value.
Reads from a timer: a process filter must not wait for the user."
  (run-at-time 0 nil (lambda ()
                       (let ((chosen (completing-read prompt (mapcar #'car choices) nil t)))
                         (funcall callback (cdr (assoc chosen choices)))))))

(defun pilotfish-sessions (&optional query)
  "Go on with an earlier session; QUERY is searched in titles and texts."
  (interactive)
  (pilotfish--start
   (lambda ()
     (pilotfish--request
      "session/list" `(:query ,query :limit 200)
      (lambda (result)
        (pilotfish--choose
         "Go on with: "
         (mapcar (lambda (session)
                   (cons (format "%s  %s" (substring (plist-get session :updatedAt) 0 16) (plist-get session :title)) session))
                 (plist-get result :sessions))
         (lambda (session)
           (pilotfish--load (plist-get session :id) (lambda () (display-buffer (pilotfish--chat)))))))))))

(defun pilotfish--configure (change)
  "Change the session as the plist CHANGE says."
  (pilotfish--request "session/configure" `(:sessionId ,(plist-get pilotfish--session :id) ,@change)
                      (lambda (result) (setq pilotfish--session (plist-get result :session)) (force-mode-line-update t))))

(defun pilotfish-mode (mode)
  "Let MODE say what runs without a question: ask, plan, edit or auto."
  (interactive (list (completing-read "Mode: " '("ask" "plan" "edit" "auto") nil t)))
  (pilotfish--configure `(:mode ,mode)))

(defun pilotfish-model ()
  "Choose the model of the session."
  (interactive)
  (pilotfish--request "model/list" nil
                      (lambda (result)
                        (pilotfish--choose "Model: "
                                           (mapcar (lambda (model) (cons (plist-get model :id) (plist-get model :id)))
                                                   (plist-get result :models))
                                           (lambda (id) (pilotfish--configure `(:model ,id)))))))

(defun pilotfish--relative-path (file)
  "The path of FILE, which has a :uri, below the workspace folder."
  (file-relative-name (pilotfish--path (plist-get file :uri)) pilotfish--root))

(defun pilotfish-undo ()
  "Put back the files the last turn changed."
  (interactive)
  (pilotfish--request "session/undo" `(:sessionId ,(plist-get pilotfish--session :id))
                      (lambda (result)
                        (when-let* ((undone (append (plist-get result :changes) nil)))
                          (pilotfish--note "info" (concat "Undone: " (mapconcat #'pilotfish--relative-path undone ", "))))
                        (seq-doseq (refused (plist-get result :refused))
                          (pilotfish--note "warning" (format "Not undone: %s: %s" (pilotfish--relative-path refused)
                                                             (plist-get refused :reason))))
                        (pilotfish--refresh-review))))

;;;; Review: what the agent changed and nobody has kept yet

(defvar-local pilotfish--hunk-overlays nil "The marks of pending changes in this buffer.")

(defun pilotfish--pending (callback)
  "Call CALLBACK with the files that have pending changes."
  (pilotfish--request "review/list" nil (lambda (result) (funcall callback (append (plist-get result :files) nil)))))

(defun pilotfish--hunk-bounds (hunk)
  "The buffer positions of HUNK, whole lines."
  (let ((range (plist-get hunk :range)))
    (cons (pilotfish--position (plist-get range :start)) (pilotfish--position (plist-get range :end)))))

(defun pilotfish--mark-hunks (hunks)
  "Mark HUNKS in the current buffer, with the lines they replaced above them."
  (dolist (hunk (append hunks nil))
    (pcase-let* ((`(,start . ,end) (pilotfish--hunk-bounds hunk))
                 (overlay (make-overlay start (max end start)))
                 (before (plist-get hunk :before)))
      (overlay-put overlay 'face 'pilotfish-changed)
      (unless (string-empty-p before)
        (overlay-put overlay 'before-string
                     (propertize (if (string-suffix-p "\n" before) before (concat before "\n")) 'face 'pilotfish-deleted)))
      (push overlay pilotfish--hunk-overlays))))

(defun pilotfish--refresh-review ()
  "Ask for the pending changes and mark them."
  (pilotfish--pending
   (lambda (files)
     (dolist (buffer (buffer-list))
       (with-current-buffer buffer
         (mapc #'delete-overlay pilotfish--hunk-overlays)
         (setq pilotfish--hunk-overlays nil)))
     (dolist (file files)
       (when-let ((buffer (and (not (equal (plist-get file :change) "deleted"))
                               (pilotfish--buffer (plist-get file :uri)))))
         (with-current-buffer buffer (pilotfish--mark-hunks (plist-get file :hunks))))))))

(defun pilotfish--hunk-at (files uri from to)
  "The file of FILES and its hunk that touch FROM to TO of URI's buffer, which is current, as a cons, or nil."
  (catch 'found
    (dolist (file files)
      (when (equal (plist-get file :uri) uri)
        (seq-doseq (hunk (plist-get file :hunks))
          (pcase-let ((`(,start . ,end) (pilotfish--hunk-bounds hunk)))
            (when (and (<= start to) (<= from (max start (1- end)))) (throw 'found (cons file hunk)))))))))

(defun pilotfish--decide (method whole-file)
  "Ask METHOD for the change at point, or with WHOLE-FILE for all of this file."
  (let ((buffer (current-buffer)) (uri (pilotfish--uri buffer-file-name)) (here (point)))
    (pilotfish--pending
     (lambda (files)
       (with-current-buffer buffer
         (let* ((found (pilotfish--hunk-at files uri here here))
                (file (or (car found) (seq-find (lambda (each) (equal (plist-get each :uri) uri)) files)))
                (hunk (cdr found)))
           (if (not (and file (or whole-file hunk)))
               (message "Pilotfish: no change of the agent is at point")
             (pilotfish--request method
                                 `(:sessionId ,(plist-get file :sessionId) :uri ,uri
                                   ,@(unless whole-file `(:hunkIds ,(vector (plist-get hunk :id)))))
                                 (lambda (result)
                                   (seq-doseq (refused (plist-get result :refused))
                                     (message "Pilotfish: not undone: %s" (plist-get refused :reason)))
                                   (pilotfish--refresh-review))))))))))

(defun pilotfish-keep-change (&optional whole-file)
  "Keep the change of the agent at point; with a prefix, WHOLE-FILE."
  (interactive "P")
  (pilotfish--decide "review/keep" whole-file))

(defun pilotfish-undo-change (&optional whole-file)
  "Undo the change of the agent at point; with a prefix, WHOLE-FILE.
What you typed in it stays."
  (interactive "P")
  (pilotfish--decide "review/undo" whole-file))

(defun pilotfish-next-change ()
  "Go to the next change of the agent in this buffer."
  (interactive)
  (let ((places (sort (mapcar #'overlay-start pilotfish--hunk-overlays) #'<)))
    (if-let ((place (or (seq-find (lambda (each) (> each (point))) places) (car places))))
        (goto-char place)
      (message "Pilotfish: there are no changes to review here"))))

;;;; Inline edits: an instruction for a place in a buffer, run in a session of its own

(defvar pilotfish--inline-sessions nil "The sessions of inline edits.")

(defun pilotfish--send-inline (method params start end)
  "Send an inline edit METHOD with PARAMS and mark START to END of the buffer until it is answered."
  (let ((overlay (make-overlay start end)) id)
    (overlay-put overlay 'face 'region)
    (overlay-put overlay 'after-string (propertize " Pilotfish is editing… (M-x pilotfish-stop)" 'face 'pilotfish-note))
    (pilotfish--sync-all)
    (setq id (pilotfish--call
              (concat "pilotfish/" method) params
              (lambda (error result)
                (delete-overlay overlay)
                (setq pilotfish--inline-requests (delq id pilotfish--inline-requests))
                (when-let ((session (plist-get result :sessionId))) (cl-pushnew session pilotfish--inline-sessions :test #'equal))
                (pilotfish--refresh-review)
                (let ((failure (or error (plist-get result :error))))
                  (cond (failure (message "Pilotfish: %s" (plist-get failure :message)))
                        ((equal (plist-get result :stopReason) "cancelled") (message "Pilotfish: stopped"))
                        ((seq-empty-p (plist-get result :hunkIds))
                         (message "Pilotfish has changed nothing here; M-x pilotfish-sessions has its answer")))))))
    (push id pilotfish--inline-requests)))

;;;###autoload
(defun pilotfish-edit (instruction)
  "Edit as INSTRUCTION says at the region or at point, in a session of its own.
The change is marked until you keep or undo it.  At a change of such an edit, the instruction refines it; an empty one
undoes it and makes it again."
  (interactive (list (read-string "Edit with Pilotfish (empty: make the edit at point again): ")))
  (unless buffer-file-name (user-error "Only a file can be edited"))
  (let* ((buffer (current-buffer)) (uri (pilotfish--uri buffer-file-name))
         (start (if (use-region-p) (region-beginning) (point))) (end (if (use-region-p) (region-end) (point)))
         (range `(:start ,(pilotfish--place start) :end ,(pilotfish--place end)))
         (lines (lambda () (cons (save-excursion (goto-char start) (line-beginning-position))
                                 (save-excursion (goto-char end) (line-end-position))))))
    (pilotfish--start
     (lambda ()
       (pilotfish--pending
        (lambda (files)
          (with-current-buffer buffer
            (pcase-let* ((`(,from . ,to) (funcall lines))
                         (session (plist-get (car (pilotfish--hunk-at files uri from to)) :sessionId))
                         (refined (car (member session pilotfish--inline-sessions))))
              (cond ((not (string-empty-p instruction))
                     (pilotfish--send-inline
                      "edit/inline"
                      `(:uri ,uri :range ,range :prompt ,instruction ,@(when refined `(:sessionId ,refined))) from to))
                    (refined (pilotfish--send-inline "edit/retry" `(:sessionId ,refined) from to))
                    (t (message "Pilotfish: no inline edit is at point")))))))))))

;;;; Questions

(defvar pilotfish-question-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map special-mode-map)
    map))

(define-derived-mode pilotfish-question-mode special-mode "Pilotfish question"
  "A question of the agent's, with its whole preview."
  (visual-line-mode 1))

(defvar-local pilotfish--question-id nil)

(defun pilotfish--ask (id question)
  "Remember QUESTION under ID and show it."
  (unless (assoc id pilotfish--questions)
    (setq pilotfish--questions (append pilotfish--questions (list (cons id question)))))
  (pilotfish--show-question)
  (message "Pilotfish asks: %s (M-x pilotfish-approve goes there)" (plist-get question :title)))

(defun pilotfish--show-question ()
  "Show the oldest question in a window, without selecting it. Returns the window."
  (pcase-let* ((`(,id . ,question) (car pilotfish--questions)))
    (with-current-buffer (get-buffer-create "*pilotfish question*")
      (unless (equal pilotfish--question-id id)
        (pilotfish-question-mode)
        (setq pilotfish--question-id id)
        (let ((inhibit-read-only t))
          (erase-buffer)
          (insert (propertize (plist-get question :title) 'face 'bold) "\n")
          (pcase-dolist (`(,key ,label . ,_) (plist-get question :choices))
            (insert "  " (propertize key 'face 'help-key-binding) "  " label "\n"))
          (insert "  q  decide later: M-x pilotfish-approve shows it again\n\n")
          (let ((start (point)))
            (insert (plist-get question :text))
            (when (plist-get question :diff) (pilotfish--fontify-diff start)))
          (goto-char (point-min)))
        (use-local-map (make-sparse-keymap))
        (set-keymap-parent (current-local-map) pilotfish-question-mode-map)
        (pcase-dolist (`(,key ,_ ,run) (plist-get question :choices))
          (local-set-key (kbd key) (lambda () (interactive) (funcall run)))))
      (display-buffer (current-buffer) '((display-buffer-reuse-window display-buffer-below-selected)
                                         (window-height . 0.5))))))

(defun pilotfish--fontify-diff (start)
  "Give the lines of a diff after START their faces."
  (save-excursion
    (goto-char start)
    (while (not (eobp))
      (let ((face (pcase (char-after) (?+ 'success) (?- 'error) (?@ 'font-lock-comment-face))))
        (when face (put-text-property (point) (line-end-position) 'face face)))
      (forward-line 1))))

(defun pilotfish-approve ()
  "Go to the oldest question that waits for an answer."
  (interactive)
  (if pilotfish--questions (select-window (pilotfish--show-question)) (message "Nothing waits for an answer")))

(defun pilotfish--close-question (id)
  "The question ID is over."
  (setq pilotfish--questions (assoc-delete-all id pilotfish--questions))
  (let ((buffer (get-buffer "*pilotfish question*")))
    (when (and buffer (equal (buffer-local-value 'pilotfish--question-id buffer) id))
      (dolist (window (get-buffer-window-list buffer nil t))
        (if (window-deletable-p window) (delete-window window) (quit-window nil window)))
      (kill-buffer buffer)
      (when pilotfish--questions (pilotfish--show-question))))
  (force-mode-line-update t))

(defun pilotfish--diff (file)
  "A unified diff of FILE of a preview."
  (let ((before (make-temp-file "pilotfish-before")) (after (make-temp-file "pilotfish-after"))
        (name (pilotfish--relative-path file)))
    (unwind-protect
        (let ((coding-system-for-write 'utf-8-unix) (coding-system-for-read 'utf-8-unix))
          (write-region (or (plist-get file :before) "") nil before nil 'silent)
          (write-region (or (plist-get file :after) "") nil after nil 'silent)
          (with-temp-buffer
            (call-process diff-command nil t nil "-u" "--label" (if (plist-get file :before) name "/dev/null")
                          "--label" (if (plist-get file :after) name "/dev/null") before after)
            (buffer-string)))
      (delete-file before)
      (delete-file after))))

(defun pilotfish--effects-text (effects)
  "EFFECTS of a command that was tried out, whole.
\"Allow once\" applies exactly these."
  (if (null effects) ""
    (format "\n\nIt was tried out in a copy.  \"Allow once\" applies exactly this:\n\n%s%s\nIts output (exit code %s):\n%s\n%s"
            (if-let ((impact (plist-get effects :impact))) (concat impact "\n") "")
            (mapconcat #'pilotfish--diff (plist-get effects :files) "\n")
            (or (plist-get effects :exitCode) "?")
            (plist-get effects :output)
            (or (plist-get effects :note) ""))))

(defun pilotfish--preview-text (preview)
  "PREVIEW as text, whole."
  (pcase (plist-get preview :kind)
    ("diff" (concat (when-let ((impact (plist-get preview :impact))) (concat impact "\n"))
                    (mapconcat #'pilotfish--diff (plist-get preview :files) "\n")))
    ("command" (format "%s\n\nin %s\n%s%s" (plist-get preview :command) (plist-get preview :cwd)
                       (mapconcat (lambda (part) (concat "- " part)) (plist-get preview :parsed) "\n")
                       (pilotfish--effects-text (plist-get preview :effects))))
    (_ (plist-get preview :text))))

(defconst pilotfish--option-keys
  '(("allow_once" . "a") ("allow_real" . "r") ("allow_session" . "s") ("allow_always" . "A") ("reject" . "d") ("reject_always" . "D")))

(defun pilotfish--ask-approval (request &optional wire-id)
  "Ask whether the call of REQUEST may run.
WIRE-ID is the server's request, where one is open."
  (let* ((id (plist-get request :approvalId))
         (send (lambda (answer)
                 (if wire-id (pilotfish--reply wire-id answer)
                   (pilotfish--request "approval/answer" `(:approvalId ,id ,@answer)))
                 (pilotfish--close-question id)))
         (choices (mapcar (lambda (option)
                            (let ((option-id (plist-get option :id)) (rule (plist-get option :rule)))
                              (list (alist-get option-id pilotfish--option-keys "x" nil #'equal)
                                    (concat (plist-get option :label) (if rule (concat ": " rule) ""))
                                    (lambda () (funcall send `(:optionId ,option-id))))))
                          (plist-get request :options))))
    (pilotfish--ask
     id `(:title ,(format "%s? (%s)" (plist-get (plist-get request :call) :title) (plist-get request :reason))
          :turn ,(plist-get request :turnId)
          :text ,(pilotfish--preview-text (plist-get request :preview))
          :diff ,(and (or (equal (plist-get (plist-get request :preview) :kind) "diff")
                          (plist-get (plist-get request :preview) :effects))
                      t)
          :choices (,@choices
                    ("f" "Deny and say why"
                     ,(lambda ()
                        (funcall send `(:optionId "reject" :feedback ,(read-string "Tell the agent why: "))))))))))

(defun pilotfish--ask-user (params wire-id)
  "Ask the question in PARAMS; WIRE-ID is the server's request."
  (let* ((id (format "ask:%s" wire-id))
         (answered (lambda (result) (pilotfish--reply wire-id result) (pilotfish--close-question id)))
         (number 0))
    (pilotfish--ask
     id `(:title "Pilotfish asks" :turn ,(plist-get params :turnId) :text ,(plist-get params :question)
          :choices (,@(mapcar (lambda (option)
                                (list (number-to-string (cl-incf number)) option
                                      (lambda () (funcall answered `(:answer ,option)))))
                              (seq-take (plist-get params :options) 9))
                    ("i" "Write an answer" ,(lambda () (funcall answered `(:answer ,(read-string "Answer: ")))))
                    ("x" "No answer" ,(lambda () (funcall answered '(:dismissed t)))))))))

(provide 'pilotfish)
;;; pilotfish.el ends here
