document.body.append('hello');
export {};
