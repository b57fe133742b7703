;;; emacs.el --- Emacs as a plain client: eglot with what the README says, and nothing more  -*- lexical-binding: t -*-

;; A prompt from the README's own command, trust, approval, the edit with undo, the answer.
;; Prints what it saw as JSON. The buffer, its edits and its undo are Emacs' own.

(package-initialize)
(require 'eglot)
(require 'json)

(defvar seen-messages nil)
(defvar seen-asked nil)
(defvar answers '("Trust this folder" "Allow once"))

(load (getenv "PILOTFISH_README"))

(setq eglot-confirm-server-initiated-edits nil
      eglot-sync-connect 60
      eglot-connect-timeout 60
      make-backup-files nil)

(defun choose (prompt options &rest _)
  "Answer PROMPT with the next of `answers' among OPTIONS."
  (push (substring-no-properties prompt) seen-asked)
  (let ((wanted (pop answers)))
    (seq-find (lambda (option) (string-prefix-p wanted option)) (all-completions "" options))))

(defun wait-for (what found)
  "Let Emacs live until FOUND, or fail naming WHAT."
  (let ((end (+ (float-time) 60)))
    (while (and (not (funcall found)) (< (float-time) end)) (accept-process-output nil 0.05))
    (unless (funcall found) (error "Waited in vain for %s" what))))

(cl-defmethod eglot-handle-notification :before (_server (_method (eql window/showMessage)) &key message &allow-other-keys)
  (push message seen-messages))

(let (edited undone)
  (find-file (getenv "PILOTFISH_FILE"))
  (erase-buffer)
  (insert "def greet():\n    return \"Helo wörld 😀\"  # not saved\n")
  (undo-boundary)
  (cl-letf (((symbol-function 'completing-read) #'choose))
    (apply #'eglot (eglot--guess-contact))
    (wait-for "eglot" #'eglot-current-server)
    (pilotfish "#edit# please")
    (wait-for "the answer" (lambda () seen-messages))
    (setq edited (buffer-string))
    (undo-boundary)
    (setq last-command nil)
    (undo)
    (setq undone (buffer-string))
    (eglot-shutdown (eglot-current-server)))
  (with-temp-file (getenv "PILOTFISH_RESULT")
    (insert (json-encode `((edited . ,edited) (undone . ,undone)
                           (asked . ,(vconcat (reverse seen-asked)))
                           (messages . ,(vconcat (reverse seen-messages)))))))
  (set-buffer-modified-p nil))
;;; emacs.el ends here
