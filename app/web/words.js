/** The words of the page, by language and name; English where a language is missing. */
const WORDS = {
  en: {
    from: "From", to: "To", detect: "Detect", swap: "Swap languages", text: "Text to translate",
    hint: "Type or paste a text", translation: "Translation", translate: "Translate", clear: "Clear", copy: "Copy",
    link: "Link", key: "API key", keyHint: "Only where this service asks for one; this browser remembers it.",
    loading: "The model is still loading …", working: "Translating …", copied: "Copied", linked: "Link copied",
    detected: "detected", short: "ended at the length limit, the end may be missing",
    same: "This text is in the target language already.", needKey: "Enter an API key.", wrongKey: "This API key is not valid.",
    tooLong: "The text is too long.", busy: "The service is busy; try again soon.",
    gone: "The service cannot be reached.", unknown: "No model here translates this language.",
    listen: "Listen", document: "Document", cancel: "Cancel", cancelled: "Cancelled", saved: "Saved:",
    progress: "Progress of the document", others: "Other words", noOther: "No other word found",
    broken: "The service did not answer as expected",
  },
  fr: {
    from: "De", to: "Vers", detect: "Détecter", swap: "Échanger les langues", text: "Texte à traduire",
    hint: "Saisissez ou collez un texte", translation: "Traduction", translate: "Traduire", clear: "Effacer",
    copy: "Copier", link: "Lien", key: "Clé d’API",
    keyHint: "Seulement si ce service en demande une ; ce navigateur la garde.",
    loading: "Le modèle se charge …", working: "Traduction …", copied: "Copié", linked: "Lien copié", detected: "détecté",
    short: "arrêté à la longueur maximale, la fin peut manquer", same: "Ce texte est déjà dans la langue cible.",
    needKey: "Saisissez une clé d’API.", wrongKey: "Cette clé d’API n’est pas valable.", tooLong: "Le texte est trop long.",
    busy: "Le service est occupé ; réessayez bientôt.", gone: "Le service est injoignable.",
    unknown: "Aucun modèle ne traduit cette langue ici.",
    listen: "Écouter", document: "Document", cancel: "Annuler", cancelled: "Annulé", saved: "Enregistré :",
    progress: "Avancement du document", others: "Autres mots", noOther: "Aucun autre mot trouvé",
    broken: "Le service n’a pas répondu comme prévu",
  },
  de: {
    from: "Von", to: "Nach", detect: "Erkennen", swap: "Sprachen tauschen", text: "Zu übersetzender Text",
    hint: "Text eingeben oder einfügen", translation: "Übersetzung", translate: "Übersetzen", clear: "Leeren",
    copy: "Kopieren", link: "Link", key: "API-Schlüssel",
    keyHint: "Nur, wenn dieser Dienst einen verlangt; dieser Browser merkt ihn sich.",
    loading: "Das Modell wird noch geladen …", working: "Wird übersetzt …", copied: "Kopiert", linked: "Link kopiert",
    detected: "erkannt", short: "an der Längengrenze beendet, das Ende kann fehlen",
    same: "Dieser Text ist schon in der Zielsprache.", needKey: "Bitte einen API-Schlüssel eingeben.",
    wrongKey: "Dieser API-Schlüssel ist nicht gültig.", tooLong: "Der Text ist zu lang.",
    busy: "Der Dienst ist ausgelastet; bitte bald wieder versuchen.", gone: "Der Dienst ist nicht erreichbar.",
    unknown: "Kein Modell übersetzt hier diese Sprache.",
    listen: "Anhören", document: "Dokument", cancel: "Abbrechen", cancelled: "Abgebrochen", saved: "Gespeichert:",
    progress: "Fortschritt des Dokuments", others: "Andere Wörter", noOther: "Kein anderes Wort gefunden",
    broken: "Der Dienst hat unerwartet geantwortet",
  },
  es: {
    from: "De", to: "A", detect: "Detectar", swap: "Intercambiar idiomas", text: "Texto para traducir",
    hint: "Escriba o pegue un texto", translation: "Traducción", translate: "Traducir", clear: "Borrar", copy: "Copiar",
    link: "Enlace", key: "Clave de API", keyHint: "Solo si este servicio la pide; este navegador la recuerda.",
    loading: "El modelo se está cargando …", working: "Traduciendo …", copied: "Copiado", linked: "Enlace copiado",
    detected: "detectado", short: "terminado en el límite de longitud, puede faltar el final",
    same: "Este texto ya está en el idioma de destino.", needKey: "Introduzca una clave de API.",
    wrongKey: "Esta clave de API no es válida.", tooLong: "El texto es demasiado largo.",
    busy: "El servicio está ocupado; inténtelo pronto de nuevo.", gone: "No se puede acceder al servicio.",
    unknown: "Ningún modelo traduce aquí este idioma.",
    listen: "Escuchar", document: "Documento", cancel: "Cancelar", cancelled: "Cancelado", saved: "Guardado:",
    progress: "Progreso del documento", others: "Otras palabras", noOther: "No hay otra palabra",
    broken: "El servicio no respondió como se esperaba",
  },
  zh: {
    from: "从", to: "到", detect: "检测语言", swap: "交换语言", text: "要翻译的文字", hint: "输入或粘贴文字",
    translation: "译文", translate: "翻译", clear: "清空", copy: "复制", link: "链接", key: "API 密钥",
    keyHint: "仅在此服务要求时需要；浏览器会记住它。", loading: "模型正在加载……", working: "正在翻译……", copied: "已复制",
    linked: "链接已复制", detected: "（检测到）", short: "已到长度上限，结尾可能缺失", same: "文字已经是目标语言。",
    needKey: "请输入 API 密钥。", wrongKey: "此 API 密钥无效。", tooLong: "文字太长。", busy: "服务繁忙，请稍后再试。",
    gone: "无法连接服务。", unknown: "这里没有翻译此语言的模型。",
    listen: "朗读", document: "文档", cancel: "取消", cancelled: "已取消", saved: "已保存：",
    progress: "文档进度", others: "其他词语", noOther: "没有其他词语",
    broken: "服务的回答不正确",
  },
};

export const language = navigator.languages.map((tag) => tag.split("-")[0]).find((code) => code in WORDS) ?? "en";

/** The words of a name in the language of the browser. */
export const words = (name) => WORDS[language][name];

const names = new Intl.DisplayNames([language], { type: "language" });

/** The name of a language in the language of the browser, or else the service's name for it. */
export function nameOf({ code, name }) {
  const known = names.of(code);
  return known === code ? name : known;
}

/** Put the words into all elements that name them. */
export function fillIn() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-words]")) element.textContent = words(element.dataset.words);
  for (const element of document.querySelectorAll("[data-label]")) element.ariaLabel = words(element.dataset.label);
  for (const element of document.querySelectorAll("[data-hint]")) element.placeholder = words(element.dataset.hint);
  document.getElementById("translation").dataset.empty = words("translation");
}
