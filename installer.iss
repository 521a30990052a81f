; The installer for Windows, for the compiler of Inno Setup 6.4 or newer. It installs for one user and asks for no
; administrator.
;
;   make frozen                  on Windows: the program, in dist\sapwood
;   iscc installer.iss           dist\sapwood-setup-VERSION.exe
;
; A running agent has no window that could be closed, so it is asked to end by its own command, and is known to run by a
; mutex (agent/system/instance_mutex.py). The memory lies elsewhere and is never touched, not by the uninstaller either.
; `make installer-check` compiles this and tries it, with a stand-in for the program.

#define AppId "7C1C1B0E-0E0A-4B0C-9D58-53A70D00D5A9"
#define Mutex "SapwoodAgent"
#define RunKey "Software\Microsoft\Windows\CurrentVersion\Run"
#define ApprovedKey "Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"

#ifndef Build
  #define Build "dist\sapwood"
#endif

; The version is said in one place, agent/__init__.py: a line __version__ = "1.2.3".
#define Handle FileOpen(AddBackslash(SourcePath) + "agent\__init__.py")
#define Line ""
#sub ReadLine
  #define Line FileRead(Handle)
  #if Pos("__version__", Line) == 1
    #define public Version Copy(Line, 16, Len(Line) - 16)
  #endif
#endsub
#define Number 0
#for {Number = 0; !FileEof(Handle); Number++} ReadLine
#expr FileClose(Handle)
#ifndef Version
  #error agent\__init__.py says no version
#endif

[Setup]
AppId={{{#AppId}}
AppName=Sapwood
AppVersion={#Version}
AppPublisher=Sapwood
VersionInfoVersion={#Version}
; Where Windows keeps the programs of one user.
DefaultDirName={localappdata}\Programs\Sapwood
PrivilegesRequired=lowest
DisableProgramGroupPage=yes
DisableDirPage=auto
WizardStyle=modern
OutputDir=dist
OutputBaseFilename=sapwood-setup-{#Version}
Compression=lzma2/max
SolidCompression=yes
UninstallDisplayIcon={app}\sapwood.exe
UninstallDisplayName=Sapwood
; The 32-bit Wine of the check is another machine than those that the program is built for.
#ifndef AnyMachine
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0
#endif
AppMutex={#Mutex}
; What else has our files open (an assistant's connection) loses nothing by being ended.
CloseApplications=force
RestartApplications=no
; An answer from last time would make a login entry again that its owner has taken away since.
UsePreviousTasks=no

[Tasks]
Name: "login"; Description: "Start Sapwood when I sign in"; Flags: unchecked; Check: HasNoLoginEntry

[InstallDelete]
; Modules of the version before would be found and loaded.
Type: filesandordirs; Name: "{app}\_internal"

[UninstallDelete]
Type: filesandordirs; Name: "{app}\_internal"

[Files]
Source: "{#Build}\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs

[Icons]
Name: "{autoprograms}\Sapwood"; Filename: "{app}\sapwoodw.exe"; Parameters: "run"

[Registry]
; As `sapwood autostart on` writes it (agent/system/autostart_registry.py).
Root: HKCU; Subkey: "{#RunKey}"; ValueType: string; ValueName: "Sapwood"; ValueData: """{app}\sapwoodw.exe"" run --at-login"; Tasks: login

[Run]
Filename: "{app}\sapwoodw.exe"; Parameters: "run"; Description: "Start Sapwood now"; Flags: nowait postinstall skipifsilent; Check: not WasRunning
; What ran before an update runs after it.
Filename: "{app}\sapwoodw.exe"; Parameters: "run"; Flags: nowait; Check: WasRunning

[Code]
const
  Patience = 100; { tenths of a second }

var
  RanBefore: Boolean;

function WasRunning: Boolean;
begin
  Result := RanBefore;
end;

function IsRunning: Boolean;
begin
  Result := CheckForMutexes('{#Mutex}');
end;

function HasNoLoginEntry: Boolean;
begin
  Result := not RegValueExists(HKEY_CURRENT_USER, '{#RunKey}', 'Sapwood');
end;

{ Where the version before lies, or nothing. }
function InstalledFolder: String;
begin
  if not RegQueryStringValue(HKEY_CURRENT_USER,
    'Software\Microsoft\Windows\CurrentVersion\Uninstall\{' + '{#AppId}' + '}_is1', 'Inno Setup: App Path', Result) then
    Result := '';
end;

{ Asks the agent to end, by its own command, and waits until it has. It loses no work. }
function HasEnded(Folder: String): Boolean;
var
  Code, Waited: Integer;
begin
  if IsRunning and FileExists(AddBackslash(Folder) + 'sapwood.exe') then
  begin
    Exec(AddBackslash(Folder) + 'sapwood.exe', 'stop --wait', Folder, SW_HIDE, ewWaitUntilTerminated, Code);
    Waited := 0;
    while IsRunning and (Waited < Patience) do
    begin
      Sleep(100);
      Waited := Waited + 1;
    end;
  end;
  Result := not IsRunning;
end;

function StillRuns: String;
begin
  Result := 'Sapwood still runs and could not be ended.' + #13#10#13#10 +
    'End it by Quit in the menu of its icon, or by `sapwood stop` in a terminal, and start this again.';
end;

function InitializeSetup: Boolean;
begin
  Result := True;
  RanBefore := IsRunning;
  if not RanBefore then
    Exit;
  if SuppressibleMsgBox('Sapwood runs. It will be ended for the time of the update and started again; no work is lost.',
    mbConfirmation, MB_OKCANCEL, IDOK) <> IDOK then
    Result := False
  else if not HasEnded(InstalledFolder) then
  begin
    SuppressibleMsgBox(StillRuns, mbError, MB_OK, IDOK);
    Result := False;
  end;
end;

{ It may have been started again while its owner read the pages before. }
function PrepareToInstall(var NeedsRestart: Boolean): String;
begin
  if HasEnded(ExpandConstant('{app}')) then
    Result := ''
  else
    Result := StillRuns;
end;

{ Who asks for it here means it, whatever was said in Task Manager before. }
procedure CurStepChanged(Step: TSetupStep);
begin
  if (Step = ssPostInstall) and WizardIsTaskSelected('login') then
    RegDeleteValue(HKEY_CURRENT_USER, '{#ApprovedKey}', 'Sapwood');
end;

function InitializeUninstall: Boolean;
begin
  Result := HasEnded(ExpandConstant('{app}'));
  if not Result then
    SuppressibleMsgBox(StillRuns, mbError, MB_OK, IDOK);
end;

{ The login entry is removed whoever made it, this installer or `sapwood autostart on`; one of another place stays. }
procedure RemoveLoginEntry;
var
  Command: String;
begin
  if RegQueryStringValue(HKEY_CURRENT_USER, '{#RunKey}', 'Sapwood', Command) and
    (Pos(Lowercase('"' + ExpandConstant('{app}') + '\'), Lowercase(Command)) = 1) then
  begin
    RegDeleteValue(HKEY_CURRENT_USER, '{#RunKey}', 'Sapwood');
    RegDeleteValue(HKEY_CURRENT_USER, '{#ApprovedKey}', 'Sapwood');
  end;
end;

procedure CurUninstallStepChanged(Step: TUninstallStep);
begin
  if Step = usUninstall then
    RemoveLoginEntry
  else if (Step = usPostUninstall) and DirExists(ExpandConstant('{localappdata}\sapwood')) and not UninstallSilent then
    MsgBox('Sapwood is removed. Your memory and your settings are kept in' + #13#10#13#10 +
      ExpandConstant('{localappdata}\sapwood') + #13#10#13#10 +
      'Delete that folder if you do not want them any more. Files of yours that Sapwood read are where they were.',
      mbInformation, MB_OK);
end;
